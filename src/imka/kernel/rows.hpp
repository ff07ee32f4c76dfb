// The registry row of each kernel. A new kernel adds a line here, an enumerator and a line in registry.cpp.
#pragma once

#include "imka/kernel/kernel.hpp"

namespace imka {

KernelRow rbf_row();
KernelRow laplace_row();
KernelRow matern32_row();
KernelRow matern52_row();
KernelRow arccos0_row();
KernelRow arccos1_row();
KernelRow arccos2_row();
KernelRow softmax_row();

}  // namespace imka

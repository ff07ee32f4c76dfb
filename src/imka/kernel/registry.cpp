// The kernels, in the order of their enumerators.
#include <array>
#include <cassert>
#include <cstddef>

#include "imka/kernel/rows.hpp"

namespace imka {

std::span<const KernelRow> kernel_registry() {
    static const std::array rows = {rbf_row(),     laplace_row(), matern32_row(), matern52_row(),
                                    arccos0_row(), arccos1_row(), arccos2_row(),  softmax_row()};
    return rows;
}

const KernelRow& kernel_row(Kernel kernel) {
    const auto& row = kernel_registry()[static_cast<std::size_t>(kernel)];
    assert(row.kernel == kernel);
    return row;
}

}  // namespace imka

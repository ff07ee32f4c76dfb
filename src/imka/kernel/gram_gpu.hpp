// Exact Gram matrices on a GPU: one thread per pair of rows. Sums over coordinates have the bits of the
// processor; exp, atan2, sin and cos are CUDA's, so that values agree within a few units in the last place of
// a double.
#pragma once

#include "imka/base/matrix.hpp"
#include "imka/kernel/kernel.hpp"

namespace imka {

// As exact_gram; shapes and gamma are valid. Error{missing_part} without the GPU or its memory.
void exact_gram_on_gpu(Kernel kernel, double gamma, MatrixView<const float> x, MatrixView<const float> y,
                       int gpu, MatrixView<double> out);

}  // namespace imka

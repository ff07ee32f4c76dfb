// Relative error of an approximate Gram matrix.
#pragma once

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

// ‖K - ZZᵀ‖_F / ‖K‖_F; K is n x n, Z has the features of the same n rows. Products and sums in double.
// Error{numeric} if K is zero. The bits do not depend on the number of threads.
double gram_error(MatrixView<const double> exact, MatrixView<const float> z, const Exec& exec);

}  // namespace imka

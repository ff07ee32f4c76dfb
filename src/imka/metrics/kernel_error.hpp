// How far an approximate Gram matrix is from the exact one.
#pragma once

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

// ‖K - ZZᵀ‖_F / ‖K‖_F; K is n x n, Z has the features of the same n rows. Products and sums in double.
// Error{numeric} when K is zero. Bits do not depend on the threads.
double gram_error(MatrixView<const double> exact, MatrixView<const float> z, const Exec& exec);

}  // namespace imka

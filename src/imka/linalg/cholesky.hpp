// Symmetric positive definite systems.
#pragma once

#include <string_view>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

// Solves a x = b and overwrites b with x. a is symmetric, n x n; only its upper triangle is read, and all of
// it is overwritten. If a is not positive definite, Error{numeric} names `what` and the pivot. Works on
// square blocks of fixed size in a fixed order, so the bits do not depend on the number of threads.
void solve_positive_definite(MatrixView<double> a, MatrixView<double> b, std::string_view what,
                             const Exec& exec);

}  // namespace imka

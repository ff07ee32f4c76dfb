// Symmetric positive definite systems.
#pragma once

#include <string_view>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

// Solves a x = b for every column of b and puts x there. a is symmetric, n x n; its upper triangle is read,
// and all of it is overwritten. Error{numeric} names `what` and the pivot when a is not positive definite.
// Works on square blocks of fixed size in a fixed order: the threads change no bit.
void solve_positive_definite(MatrixView<double> a, MatrixView<double> b, std::string_view what,
                             const Exec& exec);

}  // namespace imka

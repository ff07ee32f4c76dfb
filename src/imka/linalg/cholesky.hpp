// Symmetric positive definite systems.
#pragma once

#include <span>
#include <string_view>

#include "imka/base/matrix.hpp"

namespace imka {

// Solves a x = b for every column of b and puts x there. a is symmetric, n x n; its upper triangle is read
// and then overwritten by the factor. Error{numeric} names `what` and the pivot when a is not positive
// definite.
void solve_positive_definite(MatrixView<double> a, MatrixView<double> b, std::string_view what);

}  // namespace imka

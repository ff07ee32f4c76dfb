// Factorisations of matrices: Cholesky and QR.
#pragma once

#include <cstddef>
#include <string_view>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

// Symmetric positive definite systems.

// Solves a x = b and overwrites b with x. a is symmetric, n x n; only its upper triangle is read, and all of
// it is overwritten. If a is not positive definite, Error{numeric} names `what` and the pivot. Works on
// square blocks of fixed size in a fixed order, so the bits do not depend on the number of threads.
void solve_positive_definite(MatrixView<double> a, MatrixView<double> b, std::string_view what,
                             const Exec& exec);

// The error of a factorisation that stops at a pivot, counted from 1.
[[noreturn]] void fail_not_positive_definite(std::string_view what, std::size_t pivot, std::size_t size);

// Orthonormal bases from square matrices, by Householder QR.

// Selects one of the 2^n bases that differ only in signs.
enum class QrSigns {
    positive_diagonal,  // the triangular factor has a diagonal >= 0: a Gaussian matrix gives a Haar basis
    householder,        // as LAPACK returns them: not Haar distributed (docs/numerics.md)
};

// Replaces the rows of the n x n matrix a by an orthonormal basis Q with a = L Q, L lower triangular, so that
// the first i rows of Q span the first i rows of a. (This is the QR factorisation of the transpose.) Rows are
// orthonormal within 10 n 2^-53, even if a is singular. Cost 8/3 n^3. Non-finite values and matrices that are
// not square are Error{bad_usage}.
void orthonormalize_rows(MatrixView<double> a, QrSigns signs);

}  // namespace imka

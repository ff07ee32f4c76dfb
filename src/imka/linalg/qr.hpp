// Orthonormal bases from square matrices, by Householder QR.
#pragma once

#include "imka/base/matrix.hpp"

namespace imka {

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

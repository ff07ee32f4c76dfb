// Orthonormal bases from square matrices, by Householder QR.
#pragma once

#include "imka/base/matrix.hpp"

namespace imka {

// Which of the 2^n bases that differ in signs alone.
enum class QrSigns {
    positive_diagonal,  // the triangular factor has a diagonal >= 0: Gaussian in, Haar out
    householder,        // as LAPACK leaves them: the basis leans to one side (docs/numerics.md)
};

// Replaces the rows of the n x n matrix a by an orthonormal basis Q with a = L Q, L lower triangular: row i
// spans, with the rows before it, what the first i + 1 rows of a span. (This is the QR factorisation of the
// transpose.) Rows are orthonormal within 10 n 2^-53, also where a is singular. Cost 8/3 n^3.
// Values that are not finite, or a matrix that is not square, are Error{bad_usage}.
void orthonormalize_rows(MatrixView<double> a, QrSigns signs);

}  // namespace imka

// Matrix products on one thread. Callers split the product into tiles of fixed shape and run the tiles in
// parallel, so the bits of a result do not depend on the number of threads or on batches
// (docs/adr/0003-blas.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

// c = a bᵀ; a is n x k, b is m x k, c is n x m.
void gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
void gemm_nt(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c);

// c = a b; a is n x k, b is k x m, c is n x m.
void gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

// c = aᵀ b; a is k x n, b is k x m, c is n x m.
void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

// The upper triangle of c = aᵀ a; a is k x n, c is n x n. Values below the diagonal are not written.
void syrk_tn(MatrixView<const float> a, MatrixView<float> c);

// Rows per tile: products of this height use the same instructions for every row.
inline constexpr std::size_t kTileRows = 256;

// c = a bᵀ for any number of rows; a is n x k, b is m x k, c is n x m. Every row has the same bits as in a
// full tile, for any batch. Tiles run in parallel; the last rows run in the smallest tile that gives the same
// bits on this processor, which is determined once per shape.
void gemm_nt_rows(MatrixView<const float> a, MatrixView<const float> b, const Exec& exec,
                  MatrixView<float> c);

// Copies of a matrix and of its transpose, as operands of other products or in another precision.
template <class To = float, class T>
Matrix<To> copy_of(MatrixView<T> m) {
    Matrix<To> out(m.rows(), m.cols());
    for (std::size_t r = 0; r < m.rows(); ++r) std::ranges::copy(m.row(r), out.row(r).begin());
    return out;
}
template <class To = float, class T>
Matrix<To> transposed(MatrixView<T> m) {
    Matrix<To> out(m.cols(), m.rows());
    for (std::size_t r = 0; r < m.rows(); ++r) {
        for (std::size_t c = 0; c < m.cols(); ++c) out(c, r) = m(r, c);
    }
    return out;
}

// Name and version of the BLAS and the core it chose, for reports.
std::string blas_description();

}  // namespace imka

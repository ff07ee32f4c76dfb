// Matrix products, on one thread unless they take an Exec. Products of floats are imka's own code: the bits
// of a row of the result depend only on its row of the left factor and on the right factor (ops/panel,
// docs/adr/0038-products-of-floats.md). Callers split sums over many rows into tiles of fixed height.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/ops/panel/panel.hpp"

namespace imka {

// c = a bᵀ; a is n x k, b is m x k, c is n x m.
void gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
void gemm_nt(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c);

// c = a b; a is n x k, b is k x m, c is n x m.
void gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

// c = aᵀ b; a is k x n, b is k x m, c is n x m.
void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

// The upper triangle of c = aᵀ a; a is k x n, c is n x n. Values below the diagonal are
// unspecified.
void syrk_tn(MatrixView<const float> a, MatrixView<float> c);

// Rows per task of a parallel product.
inline constexpr std::size_t kTileRows = 256;

// c = a bᵀ, in parallel; a is n x k, b is m x k, c is n x m.
void gemm_nt_rows(MatrixView<const float> a, MatrixView<const float> b, const Exec& exec,
                  MatrixView<float> c);

// c = a b for a right factor of many products.
void gemm_rows(MatrixView<const float> a, const ops::Panels& b, const Exec& exec, MatrixView<float> c);

// gemm_nt by BLAS, for comparisons. Its speed and its bits depend on the kernels that BLAS chose, and the
// bits of a row on its position.
void blas_gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

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

#include "imka/linalg/cholesky.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <cstddef>

#include "imka/base/error.hpp"
#include "imka/linalg/blas.hpp"

// LAPACK's Fortran entry; a row-major upper triangle is its lower one.
extern "C" void dpotrf_(const char* uplo, const blasint* n, double* a, const blasint* lda, blasint* info,
                        std::size_t);

namespace imka {

void solve_positive_definite(MatrixView<double> a, MatrixView<double> b, std::string_view what) {
    assert(a.rows() == a.cols() && b.rows() == a.rows());
    use_one_blas_thread();
    const auto n = static_cast<blasint>(a.rows());
    const auto lda = static_cast<blasint>(a.stride());
    blasint info = 0;
    dpotrf_("L", &n, a.data(), &lda, &info, 1);
    // OpenBLAS passes NaN pivots on; a NaN anywhere ends on the diagonal.
    for (blasint i = 0; i < n && info == 0; ++i) {
        const auto k = static_cast<std::size_t>(i);
        if (!std::isfinite(a(k, k))) info = i + 1;
    }
    if (info > 0) {
        fail(ErrorCode::numeric,
             fmt::format("{} is not positive definite (pivot {} of {}): features repeat or are "
                         "constant; use a larger ridge penalty alpha",
                         what, info, n));
    }
    // a = Uᵀ U with U in the upper triangle of the row-major matrix.
    for (const auto transpose : {CblasTrans, CblasNoTrans}) {
        cblas_dtrsm(CblasRowMajor, CblasLeft, CblasUpper, transpose, CblasNonUnit, n,
                    static_cast<blasint>(b.cols()), 1.0, a.data(), lda, b.data(),
                    static_cast<blasint>(b.stride()));
    }
}

}  // namespace imka

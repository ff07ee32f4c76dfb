#include "imka/linalg/qr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/linalg/blas.hpp"

// LAPACK's Fortran interface, column major.
extern "C" {
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work,
             const int* lwork, int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau,
             double* work, const int* lwork, int* info);
}

namespace imka {
namespace {

// A workspace of this many columns lets LAPACK use its blocked code.
constexpr std::size_t kWorkColumns = 64;

void check_square_and_finite(MatrixView<double> a) {
    if (a.rows() != a.cols()) {
        fail(ErrorCode::bad_usage,
             fmt::format("orthonormalize_rows: the matrix must be square, got {} x {}", a.rows(), a.cols()));
    }
    for (std::size_t r = 0; r < a.rows(); ++r) {
        const auto row = a.row(r);
        if (!std::all_of(row.begin(), row.end(), [](double v) { return std::isfinite(v); }))
            fail(ErrorCode::bad_usage,
                 fmt::format("orthonormalize_rows: row {} contains a non-finite value", r));
    }
}

}  // namespace

void orthonormalize_rows(MatrixView<double> a, QrSigns signs) {
    check_square_and_finite(a);
    if (a.rows() == 0) return;
    const BlasCall call;
    assert(a.stride() <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
    const auto n = static_cast<int>(a.rows());
    const auto lda = static_cast<int>(a.stride());
    std::vector<double> tau(a.rows());
    std::vector<double> work(kWorkColumns * a.rows());
    const auto work_size = static_cast<int>(work.size());
    int info = 0;
    // A row-major matrix read as column-major is its transpose, whose columns are our rows.
    dgeqrf_(&n, &n, a.data(), &lda, tau.data(), work.data(), &work_size, &info);
    assert(info == 0);
    std::vector<bool> flip(a.rows(), false);
    if (signs == QrSigns::positive_diagonal) {
        for (std::size_t i = 0; i < a.rows(); ++i) flip[i] = a(i, i) < 0.0;
    }
    dorgqr_(&n, &n, &n, a.data(), &lda, tau.data(), work.data(), &work_size, &info);
    assert(info == 0);
    for (std::size_t i = 0; i < a.rows(); ++i) {
        if (!flip[i]) continue;
        for (double& v : a.row(i)) v = -v;
    }
}

}  // namespace imka

#include "imka/linalg/factor.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/blas.hpp"

// Fortran interface; a row-major upper triangle is a column-major lower one.
extern "C" void dpotrf_(const char* uplo, const blasint* n, double* a, const blasint* lda, blasint* info,
                        std::size_t);

// LAPACK's Fortran interface, column major.
extern "C" {
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work,
             const int* lwork, int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau,
             double* work, const int* lwork, int* info);
}

namespace imka {
namespace {

constexpr std::size_t kBlock = 256;

blasint lapack_size(std::size_t n) {
    return static_cast<blasint>(n);
}

// Block (i, j) of a matrix cut into squares of kBlock.
MatrixView<double> block_of(MatrixView<double> a, std::size_t i, std::size_t j) {
    const std::size_t r = i * kBlock;
    const std::size_t c = j * kBlock;
    return a.slice_rows(r, std::min(kBlock, a.rows() - r)).slice_cols(c, std::min(kBlock, a.cols() - c));
}

// a = Uᵀ U, overwriting the upper triangle of a. Returns the first pivot that is not positive, counted from
// 1, or 0.
std::size_t factor_block(MatrixView<double> a) {
    const auto n = lapack_size(a.rows());
    const auto lda = lapack_size(a.stride());
    blasint info = 0;
    const BlasCall call;
    dpotrf_("L", &n, a.data(), &lda, &info, 1);
    if (info != 0) return static_cast<std::size_t>(info);
    // OpenBLAS does not report NaN pivots.
    for (std::size_t i = 0; i < a.rows(); ++i) {
        if (!std::isfinite(a(i, i))) return i + 1;
    }
    return 0;
}

// b = U⁻ᵀ b or U⁻¹ b.
void solve_triangle(MatrixView<double> u, MatrixView<double> b, CBLAS_TRANSPOSE transpose) {
    const BlasCall call;
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasUpper, transpose, CblasNonUnit, lapack_size(b.rows()),
                lapack_size(b.cols()), 1.0, u.data(), lapack_size(u.stride()), b.data(),
                lapack_size(b.stride()));
}

// c -= aᵀ b
void subtract_product(MatrixView<double> a, MatrixView<double> b, MatrixView<double> c) {
    const BlasCall call;
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, lapack_size(c.rows()), lapack_size(c.cols()),
                lapack_size(a.rows()), -1.0, a.data(), lapack_size(a.stride()), b.data(),
                lapack_size(b.stride()), 1.0, c.data(), lapack_size(c.stride()));
}

// One step: computes the rows of U from block k and subtracts their products from the remaining blocks.
void eliminate(MatrixView<double> a, std::size_t k, std::size_t blocks, const Exec& exec) {
    parallel_for(exec, blocks - k - 1, [&](std::size_t j) {
        solve_triangle(block_of(a, k, k), block_of(a, k, k + 1 + j), CblasTrans);
    });
    std::vector<std::pair<std::size_t, std::size_t>> rest;
    for (std::size_t i = k + 1; i < blocks; ++i) {
        for (std::size_t j = i; j < blocks; ++j) rest.emplace_back(i, j);
    }
    parallel_for(exec, rest.size(), [&](std::size_t t) {
        const auto [i, j] = rest[t];
        subtract_product(block_of(a, k, i), block_of(a, k, j), block_of(a, i, j));
    });
}

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

void fail_not_positive_definite(std::string_view what, std::size_t pivot, std::size_t size) {
    fail(ErrorCode::numeric,
         fmt::format("{} is not positive definite (pivot {} of {}): its columns are not independent", what,
                     pivot, size));
}

void solve_positive_definite(MatrixView<double> a, MatrixView<double> b, std::string_view what,
                             const Exec& exec) {
    assert(a.rows() == a.cols() && b.rows() == a.rows());
    const StopWatch watch(exec, &WorkTimes::solve);
    const std::size_t blocks = (a.rows() + kBlock - 1) / kBlock;
    for (std::size_t k = 0; k < blocks; ++k) {
        if (const auto pivot = factor_block(block_of(a, k, k))) {
            fail_not_positive_definite(what, k * kBlock + pivot, a.rows());
        }
        eliminate(a, k, blocks, exec);
    }
    solve_triangle(a, b, CblasTrans);
    solve_triangle(a, b, CblasNoTrans);
}

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

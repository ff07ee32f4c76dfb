#include "imka/linalg/gemm.hpp"

#include <cblas.h>

#include <algorithm>
#include <cassert>

#include "imka/base/parallel.hpp"
#include "imka/linalg/blas.hpp"

namespace imka {
namespace {

blasint as_blas(std::size_t n) {
    return static_cast<blasint>(n);
}

// Columns of a right factor that are packed at a time: their panels stay in the L2 cache.
std::size_t packed_columns(std::size_t depth) {
    constexpr std::size_t kValues = std::size_t{1} << 16U;
    const std::size_t width = ops::panel_width();
    return std::max<std::size_t>(1, kValues / std::max<std::size_t>(1, depth * width)) * width;
}

// Packs a right factor of `depth` rows and `cols` columns, at most `most` columns at a time, and multiplies
// by them: pack(first column, count, panels), multiply(first column, count, panels).
template <class Pack, class Multiply>
void multiply_by_parts(std::size_t depth, std::size_t cols, std::size_t most, const Pack& pack,
                       const Multiply& multiply) {
    ops::Panels panels;
    for (std::size_t first = 0; first < cols; first += most) {
        const std::size_t count = std::min(most, cols - first);
        panels.reshape(depth, count);
        pack(first, count, panels);
        multiply(first, count, panels);
    }
}

// How parts of b and of its transpose are packed.
auto packing(MatrixView<const float> b) {
    return [b](std::size_t first, std::size_t count, ops::Panels& panels) {
        ops::pack(b.slice_cols(first, count), 1.0F, {}, panels);
    };
}
auto transposed_packing(MatrixView<const float> b) {
    return [b](std::size_t first, std::size_t count, ops::Panels& panels) {
        ops::pack_transposed(b.slice_rows(first, count), 1.0F, {}, panels);
    };
}

}  // namespace

void gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    assert(a.cols() == b.cols() && c.rows() == a.rows() && c.cols() == b.rows());
    multiply_by_parts(a.cols(), b.rows(), packed_columns(a.cols()), transposed_packing(b),
                      [&](std::size_t first, std::size_t count, const ops::Panels& part) {
                          ops::multiply(a, part, c.slice_cols(first, count));
                      });
}

void blas_gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    assert(a.cols() == b.cols() && c.rows() == a.rows() && c.cols() == b.rows());
    const BlasCall call;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_blas(a.rows()), as_blas(b.rows()),
                as_blas(a.cols()), 1.0F, a.data(), as_blas(a.stride()), b.data(), as_blas(b.stride()), 0.0F,
                c.data(), as_blas(c.stride()));
}

void gemm_nt(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c) {
    assert(a.cols() == b.cols() && c.rows() == a.rows() && c.cols() == b.rows());
    const BlasCall call;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_blas(a.rows()), as_blas(b.rows()),
                as_blas(a.cols()), 1.0, a.data(), as_blas(a.stride()), b.data(), as_blas(b.stride()), 0.0,
                c.data(), as_blas(c.stride()));
}

void gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    assert(a.cols() == b.rows() && c.rows() == a.rows() && c.cols() == b.cols());
    multiply_by_parts(b.rows(), b.cols(), packed_columns(b.rows()), packing(b),
                      [&](std::size_t first, std::size_t count, const ops::Panels& part) {
                          ops::multiply(a, part, c.slice_cols(first, count));
                      });
}

void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    assert(a.rows() == b.rows() && c.rows() == a.cols() && c.cols() == b.cols());
    multiply_by_parts(b.rows(), b.cols(), packed_columns(b.rows()), packing(b),
                      [&](std::size_t first, std::size_t count, const ops::Panels& part) {
                          ops::multiply_transposed(a, part, c.slice_cols(first, count));
                      });
}

void syrk_tn(MatrixView<const float> a, MatrixView<float> c) {
    assert(c.rows() == a.cols() && c.cols() == a.cols());
    ops::multiply_transposed_upper(ops::packed(a), c);
}

std::string blas_description() {
    return std::string(openblas_get_config()) + ", core " + openblas_get_corename();
}

void gemm_nt_rows(MatrixView<const float> a, MatrixView<const float> b, const Exec& exec,
                  MatrixView<float> c) {
    assert(a.cols() == b.cols() && c.rows() == a.rows() && c.cols() == b.rows());
    const std::size_t values = b.rows() * b.cols();
    constexpr std::size_t kFewValues = std::size_t{1} << 18U;
    if (a.rows() > kTileRows && values <= kFewValues) return gemm_rows(a, ops::packed_transposed(b), exec, c);
    constexpr std::size_t kLeastWork = std::size_t{1} << 24U;  // for using several threads
    if (a.rows() * values < kLeastWork) return gemm_nt(a, b, c);
    // Many rows per task, so that packing a part again in each task takes little time.
    constexpr std::size_t kRows = 4 * kTileRows;
    const std::size_t columns = packed_columns(a.cols());
    const std::size_t across = (b.rows() + columns - 1) / columns;
    parallel_for(exec, (a.rows() + kRows - 1) / kRows * across, [&](std::size_t t) {
        const std::size_t row = t / across * kRows;
        const std::size_t column = t % across * columns;
        const std::size_t rows = std::min(kRows, a.rows() - row);
        const std::size_t count = std::min(columns, b.rows() - column);
        gemm_nt(a.slice_rows(row, rows), b.slice_rows(column, count),
                c.slice_rows(row, rows).slice_cols(column, count));
    });
}

void gemm_rows(MatrixView<const float> a, const ops::Panels& b, const Exec& exec, MatrixView<float> c) {
    if (a.rows() <= kTileRows) return ops::multiply(a, b, c);
    parallel_for(exec, (a.rows() + kTileRows - 1) / kTileRows, [&](std::size_t t) {
        const std::size_t first = t * kTileRows;
        const std::size_t count = std::min(kTileRows, a.rows() - first);
        ops::multiply(a.slice_rows(first, count), b, c.slice_rows(first, count));
    });
}

}  // namespace imka

#include "imka/linalg/gemm.hpp"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "imka/base/parallel.hpp"
#include "imka/linalg/blas.hpp"

namespace imka {
namespace {

blasint as_blas(std::size_t n) {
    return static_cast<blasint>(n);
}

// Products of any number of rows, each with the same bits as in a full tile. BLAS may use a different code
// path for a small product, with different rounding. So a small tile is used only after a probe: random
// matrices of its shape must give the same bits in small tiles as in a full one. The result of a probe is
// kept until the process ends.

constexpr std::array<std::size_t, 6> kHeights = {4, 8, 16, 32, 64, 128};

struct Shape {
    std::size_t height;
    std::size_t outputs;
    std::size_t inputs;
    auto operator<=>(const Shape&) const = default;
};

enum class Verdict {
    unseen,
    seen,  // once; a probe costs more than two full tiles, so the first small product uses a full tile
    probing,
    same,
    different,
};

class Verdicts {
public:
    // Returns the previous verdict. Exactly one caller gets `seen` and must probe.
    Verdict visit(const Shape& shape) {
        const std::scoped_lock lock(mutex_);
        auto& verdict = verdicts_[shape];
        const auto before = verdict;
        if (verdict == Verdict::unseen) verdict = Verdict::seen;
        if (before == Verdict::seen) verdict = Verdict::probing;
        return before;
    }
    void set(const Shape& shape, Verdict verdict) {
        const std::scoped_lock lock(mutex_);
        verdicts_[shape] = verdict;
    }

private:
    std::mutex mutex_;
    std::map<Shape, Verdict> verdicts_;
};

Verdicts& verdicts() {
    static Verdicts all;
    return all;
}

// All 24 bits of values in [-1, 1) matter in sums of their products.
Matrix<float> noise(std::size_t rows, std::size_t cols, std::uint32_t state) {
    Matrix<float> m(rows, cols);
    for (auto& v : m.values()) {
        state = state * 1664525U + 1013904223U;
        v = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
    }
    return m;
}

Verdict probe(const Shape& shape) {
    const auto a = noise(kTileRows, shape.inputs, 1);
    const auto b = noise(shape.outputs, shape.inputs, 2);
    Matrix<float> full(kTileRows, shape.outputs);
    Matrix<float> parts(kTileRows, shape.outputs);
    gemm_nt(a.view(), b.view(), full.view());
    for (std::size_t first = 0; first < kTileRows; first += shape.height)
        gemm_nt(a.view().slice_rows(first, shape.height), b.view(),
                parts.view().slice_rows(first, shape.height));
    return parts == full ? Verdict::same : Verdict::different;
}

// The smallest height >= rows known to give the same bits as a full tile.
std::size_t tile_height(std::size_t rows, std::size_t outputs, std::size_t inputs) {
    for (const auto height : kHeights) {
        if (height < rows) continue;
        const Shape shape{height, outputs, inputs};
        auto verdict = verdicts().visit(shape);
        if (verdict == Verdict::seen) {
            verdict = probe(shape);
            verdicts().set(shape, verdict);
        }
        if (verdict == Verdict::same) return height;
        if (verdict != Verdict::different) break;
    }
    return kTileRows;
}

void copy_rows(MatrixView<const float> from, MatrixView<float> to) {
    for (std::size_t r = 0; r < from.rows(); ++r) std::ranges::copy(from.row(r), to.row(r).begin());
}

void multiply_rest(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    const std::size_t height = tile_height(a.rows(), b.rows(), b.cols());
    if (height == a.rows()) return gemm_nt(a, b, c);
    Matrix<float> in(height, a.cols());
    Matrix<float> out(height, c.cols());
    copy_rows(a, in.view());
    gemm_nt(in.view(), b, out.view());
    copy_rows(std::as_const(out).view().slice_rows(0, c.rows()), c);
}

void multiply_tile(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    a.rows() == kTileRows ? gemm_nt(a, b, c) : multiply_rest(a, b, c);
}

}  // namespace

void gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
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
    const BlasCall call;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, as_blas(a.rows()), as_blas(b.cols()),
                as_blas(a.cols()), 1.0F, a.data(), as_blas(a.stride()), b.data(), as_blas(b.stride()), 0.0F,
                c.data(), as_blas(c.stride()));
}

void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    assert(a.rows() == b.rows() && c.rows() == a.cols() && c.cols() == b.cols());
    const BlasCall call;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, as_blas(a.cols()), as_blas(b.cols()),
                as_blas(a.rows()), 1.0F, a.data(), as_blas(a.stride()), b.data(), as_blas(b.stride()), 0.0F,
                c.data(), as_blas(c.stride()));
}

void syrk_tn(MatrixView<const float> a, MatrixView<float> c) {
    assert(c.rows() == a.cols() && c.cols() == a.cols());
    const BlasCall call;
    cblas_ssyrk(CblasRowMajor, CblasUpper, CblasTrans, as_blas(a.cols()), as_blas(a.rows()), 1.0F, a.data(),
                as_blas(a.stride()), 0.0F, c.data(), as_blas(c.stride()));
}

std::string blas_description() {
    return std::string(openblas_get_config()) + ", core " + openblas_get_corename();
}

void gemm_nt_rows(MatrixView<const float> a, MatrixView<const float> b, const Exec& exec,
                  MatrixView<float> c) {
    assert(a.cols() == b.cols() && c.rows() == a.rows() && c.cols() == b.rows());
    if (a.rows() == 0) return;
    if (a.rows() <= kTileRows) return multiply_tile(a, b, c);
    parallel_for(exec, (a.rows() + kTileRows - 1) / kTileRows, [&](std::size_t t) {
        const std::size_t first = t * kTileRows;
        const std::size_t rows = std::min(kTileRows, a.rows() - first);
        multiply_tile(a.slice_rows(first, rows), b, c.slice_rows(first, rows));
    });
}

}  // namespace imka

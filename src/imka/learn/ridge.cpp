#include "imka/learn/ridge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/cholesky.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

constexpr std::size_t kRowsPerTile = 512;   // rows summed by one product
constexpr std::size_t kColsPerBlock = 128;  // square blocks of the product matrix, the unit of parallel work

std::size_t block_count(std::size_t n) {
    return (n + kColsPerBlock - 1) / kColsPerBlock;
}

// The blocks (i, j), i <= j, of an upper triangle.
std::vector<std::pair<std::size_t, std::size_t>> upper_blocks(std::size_t n) {
    std::vector<std::pair<std::size_t, std::size_t>> blocks;
    for (std::size_t i = 0; i < block_count(n); ++i) {
        for (std::size_t j = i; j < block_count(n); ++j) blocks.emplace_back(i, j);
    }
    return blocks;
}

template <class T>
MatrixView<T> block_cols(MatrixView<T> a, std::size_t block) {
    const std::size_t first = block * kColsPerBlock;
    return a.slice_cols(first, std::min(kColsPerBlock, a.cols() - first));
}

void copy_row(std::span<const float> from, std::span<double> to) {
    std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

Fields fields(RidgeConfig& config) {
    return {field("alpha", config.alpha, {.help = "Ridge penalty on squared weights", .min = 0.0}),
            field("intercept", config.intercept,
                  {.help = "Intercept: penalised like a weight, free of penalty, or none"})};
}

RidgeAccumulator::RidgeAccumulator(std::size_t features, std::size_t outputs)
    : features_(features), outputs_(outputs) {
    const std::size_t p = 1 + features + outputs;
    // The products, and a copy when they are solved.
    check_fits_memory(2.0 * static_cast<double>(p), static_cast<double>(p), sizeof(double),
                      "the normal equations");
    buffer_ = Matrix<double>(kRowsPerTile, p);
    products_ = Matrix<double>(p, p);
}

void RidgeAccumulator::add(MatrixView<const float> z, MatrixView<const float> y, const Exec& exec) {
    assert(z.cols() == features_ && y.cols() == outputs_ && z.rows() == y.rows());
    for (std::size_t r = 0; r < z.rows(); ++r) {
        const auto row = buffer_.row(buffered_);
        row[0] = 1.0;
        copy_row(z.row(r), row.subspan(1, features_));
        copy_row(y.row(r), row.subspan(1 + features_));
        if (++buffered_ == kRowsPerTile) flush(exec);
    }
    rows_ += z.rows();
}

void RidgeAccumulator::flush(const Exec& exec) {
    const auto rows = std::as_const(buffer_).view().slice_rows(0, std::exchange(buffered_, 0));
    const auto blocks = upper_blocks(products_.cols());
    parallel_for(exec, blocks.size(), [&](std::size_t b) {
        const auto left = block_cols(rows, blocks[b].first);
        const auto right = block_cols(rows, blocks[b].second);
        const auto band = products_.view().slice_rows(blocks[b].first * kColsPerBlock, left.cols());
        gemm_tn_add(left, right, block_cols(band, blocks[b].second));
    });
}

RidgeWeights RidgeAccumulator::solve(const RidgeConfig& config, const Exec& exec) {
    if (rows_ == 0) fail(ErrorCode::bad_data, "a ridge fit needs at least one row");
    if (buffered_ > 0) flush(exec);
    const std::size_t skip = config.intercept == Intercept::none ? 1 : 0;
    const std::size_t n = 1 + features_ - skip;
    Matrix<double> a(n, n);
    Matrix<double> b(n, outputs_);
    for (std::size_t i = 0; i < n; ++i) {
        const auto row = products_.row(i + skip);
        std::copy(row.begin() + static_cast<std::ptrdiff_t>(i + skip),
                  row.begin() + static_cast<std::ptrdiff_t>(n + skip),
                  a.row(i).begin() + static_cast<std::ptrdiff_t>(i));
        std::copy(row.end() - static_cast<std::ptrdiff_t>(outputs_), row.end(), b.row(i).begin());
        const bool is_free = config.intercept == Intercept::free && i == 0;
        if (!is_free) a(i, i) += config.alpha;
    }
    solve_positive_definite(a.view(), b.view(), "the ridge system");
    RidgeWeights weights{.w = Matrix<double>(features_, outputs_),
                         .intercept = std::vector<double>(outputs_)};
    if (skip == 0) std::copy(b.row(0).begin(), b.row(0).end(), weights.intercept.begin());
    for (std::size_t i = 0; i < features_; ++i) {
        const auto from = b.row(i + 1 - skip);
        std::copy(from.begin(), from.end(), weights.w.row(i).begin());
    }
    return weights;
}

void ridge_predict(const RidgeWeights& weights, MatrixView<const float> z, const Exec& exec,
                   MatrixView<double> out) {
    assert(z.cols() == weights.w.rows() && out.rows() == z.rows() && out.cols() == weights.w.cols());
    Matrix<double> transposed(weights.w.cols(), weights.w.rows());
    for (std::size_t i = 0; i < weights.w.rows(); ++i) {
        for (std::size_t k = 0; k < weights.w.cols(); ++k) transposed(k, i) = weights.w(i, k);
    }
    const std::size_t tiles = (z.rows() + kTileRows - 1) / kTileRows;
    parallel_for(exec, tiles, [&](std::size_t t) {
        const std::size_t first = t * kTileRows;
        const std::size_t count = std::min(kTileRows, z.rows() - first);
        Matrix<double> tile(kTileRows, z.cols());
        Matrix<double> scores(kTileRows, out.cols());
        for (std::size_t r = 0; r < count; ++r) copy_row(z.row(first + r), tile.row(r));
        gemm_nt(std::as_const(tile).view(), std::as_const(transposed).view(), scores.view());
        for (std::size_t r = 0; r < count; ++r) {
            for (std::size_t k = 0; k < out.cols(); ++k)
                out(first + r, k) = scores(r, k) + weights.intercept[k];
        }
    });
}

}  // namespace imka

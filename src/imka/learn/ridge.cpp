#include "imka/learn/ridge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/cholesky.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/dot/dot.hpp"

namespace imka {
namespace {

// Square blocks of ZᵀZ, the unit of parallel work: large enough that packing a block costs little beside its
// product, small enough that a block of float and double sums stays in the second-level cache.
constexpr std::size_t kColsPerBlock = 352;

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

void add_to(MatrixView<const float> from, MatrixView<double> to, bool upper) {
    for (std::size_t r = 0; r < from.rows(); ++r) {
        const auto in = from.row(r);
        const auto out = to.row(r);
        for (std::size_t c = upper ? r : 0; c < in.size(); ++c) out[c] += in[c];
    }
}

template <class T>
void copy_row(std::span<const float> from, std::span<T> to) {
    std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

Fields fields(RidgeConfig& config) {
    return {field("alpha", config.alpha, {.help = "Ridge penalty on squared weights", .min = 0.0}),
            field("intercept", config.intercept,
                  {.help = "Intercept: penalised like a weight, free of penalty, or none"})};
}

RidgeAccumulator::RidgeAccumulator(std::size_t features, std::size_t outputs)
    : features_(features), outputs_(outputs), y_sums_(outputs) {
    const auto p = static_cast<double>(1 + features + outputs);
    // The products, and a copy when they are solved.
    check_fits_memory(2.0 * p, p, sizeof(double), "the normal equations");
    z_buffer_ = Matrix<float>(kRowsPerTile, features);
    y_buffer_ = Matrix<float>(kRowsPerTile, outputs);
    zz_ = Matrix<double>(features, features);
    zy_ = Matrix<double>(features, 1 + outputs);
}

void RidgeAccumulator::add(MatrixView<const float> z, MatrixView<const float> y, const Exec& exec) {
    assert(z.cols() == features_ && y.cols() == outputs_ && z.rows() == y.rows());
    std::size_t first = 0;
    while (first < z.rows()) {
        const std::size_t left = z.rows() - first;
        if (buffered_ == 0 && left >= kRowsPerTile) {
            add_tile(z.slice_rows(first, kRowsPerTile), y.slice_rows(first, kRowsPerTile), exec);
            first += kRowsPerTile;
            continue;
        }
        const std::size_t count = std::min(left, kRowsPerTile - buffered_);
        for (std::size_t r = 0; r < count; ++r) {
            copy_row(z.row(first + r), z_buffer_.row(buffered_ + r));
            copy_row(y.row(first + r), y_buffer_.row(buffered_ + r));
        }
        buffered_ += count;
        first += count;
        if (buffered_ == kRowsPerTile) {
            add_tile(std::as_const(z_buffer_).view(), std::as_const(y_buffer_).view(), exec);
            buffered_ = 0;
        }
    }
    rows_ += z.rows();
}

void RidgeAccumulator::add_tile(MatrixView<const float> z, MatrixView<const float> y, const Exec& exec) {
    Matrix<float> ones_y(z.rows(), 1 + outputs_);
    for (std::size_t r = 0; r < z.rows(); ++r) {
        ones_y(r, 0) = 1.0F;
        copy_row(y.row(r), ones_y.row(r).subspan(1));
        for (std::size_t o = 0; o < outputs_; ++o) y_sums_[o] += y(r, o);
    }
    const auto blocks = upper_blocks(features_);
    // Behind the blocks of ZᵀZ, one piece of work a block of Zᵀ[1, Y].
    parallel_for_workers(exec, blocks.size() + block_count(features_), [&] {
        return [&, scratch = Matrix<float>(kColsPerBlock, std::max(kColsPerBlock, ones_y.cols()))](
                   std::size_t b) mutable {
            const bool is_zz = b < blocks.size();
            const auto [i, j] = is_zz ? blocks[b] : std::pair{b - blocks.size(), std::size_t{0}};
            const auto left = block_cols(z, i);
            const auto right = is_zz ? block_cols(z, j) : std::as_const(ones_y).view();
            const auto sums = scratch.view().slice_rows(0, left.cols()).slice_cols(0, right.cols());
            const bool diagonal = is_zz && i == j;
            if (diagonal) {
                syrk_tn(left, sums);
            } else {
                gemm_tn(left, right, sums);
            }
            const auto band = (is_zz ? zz_ : zy_).view().slice_rows(i * kColsPerBlock, left.cols());
            add_to(sums, is_zz ? block_cols(band, j) : band, diagonal);
        };
    });
}

RidgeWeights RidgeAccumulator::solve(const RidgeConfig& config, const Exec& exec) {
    if (rows_ == 0) fail(ErrorCode::bad_data, "a ridge fit needs at least one row");
    if (buffered_ > 0) {
        const std::size_t rest = std::exchange(buffered_, 0);
        add_tile(std::as_const(z_buffer_).view().slice_rows(0, rest),
                 std::as_const(y_buffer_).view().slice_rows(0, rest), exec);
    }
    // Unknowns: the intercept first, where there is one, then the weights.
    const std::size_t w = config.intercept == Intercept::none ? 0 : 1;
    Matrix<double> a(w + features_, w + features_);
    Matrix<double> b(w + features_, outputs_);
    if (w == 1) {
        a(0, 0) = static_cast<double>(rows_) + (config.intercept == Intercept::free ? 0.0 : config.alpha);
        for (std::size_t i = 0; i < features_; ++i) a(0, 1 + i) = zy_(i, 0);
        std::copy(y_sums_.begin(), y_sums_.end(), b.row(0).begin());
    }
    for (std::size_t i = 0; i < features_; ++i) {
        const auto row = std::as_const(zz_).row(i).subspan(i);
        std::copy(row.begin(), row.end(), a.row(w + i).subspan(w + i).begin());
        a(w + i, w + i) += config.alpha;
        const auto targets = std::as_const(zy_).row(i).subspan(1);
        std::copy(targets.begin(), targets.end(), b.row(w + i).begin());
    }
    solve_positive_definite(a.view(), b.view(), "the ridge system", exec);
    RidgeWeights weights{.w = Matrix<double>(features_, outputs_),
                         .intercept = std::vector<double>(outputs_)};
    if (w == 1) std::copy(b.row(0).begin(), b.row(0).end(), weights.intercept.begin());
    for (std::size_t i = 0; i < features_; ++i) {
        std::copy(b.row(w + i).begin(), b.row(w + i).end(), weights.w.row(i).begin());
    }
    return weights;
}

void ridge_predict(const RidgeWeights& weights, MatrixView<const float> z, const Exec& exec,
                   MatrixView<double> out) {
    assert(z.cols() == weights.w.rows() && out.rows() == z.rows() && out.cols() == weights.w.cols());
    // One row of weights an output, so that a row of features meets them in sequence.
    Matrix<double> transposed(weights.w.cols(), weights.w.rows());
    for (std::size_t i = 0; i < weights.w.rows(); ++i) {
        for (std::size_t k = 0; k < weights.w.cols(); ++k) transposed(k, i) = weights.w(i, k);
    }
    constexpr std::size_t kRowsPerTask = 256;
    parallel_for(exec, (z.rows() + kRowsPerTask - 1) / kRowsPerTask, [&](std::size_t t) {
        const std::size_t end = std::min(z.rows(), (t + 1) * kRowsPerTask);
        for (std::size_t r = t * kRowsPerTask; r < end; ++r) {
            for (std::size_t k = 0; k < out.cols(); ++k) {
                out(r, k) = weights.intercept[k] + ops::dot(z.row(r), std::as_const(transposed).row(k));
            }
        }
    });
}

}  // namespace imka

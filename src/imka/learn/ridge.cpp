#include "imka/learn/ridge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/factor.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/dot/dot.hpp"
#include "imka/ops/panel/panel.hpp"

namespace imka {
namespace {

constexpr std::string_view kSystem = "the ridge system";

// Rounds up to whole cache lines of floats.
std::size_t round_up(std::size_t n) {
    constexpr std::size_t kLine = 16;
    return (n + kLine - 1) / kLine * kLine;
}

// How the products are divided into parallel tasks: depends only on the width of a row, not on the number of
// threads. Blocks are wide, because packing a narrow block costs as much as packing a wide one. To use many
// cores nevertheless, tiles of rows are distributed over several lanes, each with its own sums, if these need
// little memory.
struct Cut {
    std::size_t lanes;
    std::size_t block_width;
    std::size_t blocks;  // along one side
};

Cut cut_for(std::size_t width) {
    constexpr std::size_t kWidest = 720;
    constexpr std::size_t kWhole = 256;
    const std::size_t blocks =
        std::max((width + kWidest - 1) / kWidest, std::size_t{width > kWhole ? 2U : 1U});
    const std::size_t block_width = round_up((width + blocks - 1) / blocks);
    return {.lanes = width <= 2048   ? 8U
                     : width <= 4096 ? 4U
                                     : 1U,
            .block_width = block_width,
            .blocks = (width + block_width - 1) / block_width};
}

struct BlockIndex {
    std::size_t row;
    std::size_t col;
};

// The blocks of an upper triangle; the half blocks on the diagonal come last, so that workers finish
// together.
std::vector<BlockIndex> upper_blocks(std::size_t count) {
    std::vector<BlockIndex> blocks;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = i + 1; j < count; ++j) blocks.push_back({i, j});
    }
    for (std::size_t i = 0; i < count; ++i) blocks.push_back({i, i});
    return blocks;
}

template <class T>
MatrixView<T> block_cols(MatrixView<T> a, std::size_t width, std::size_t block) {
    return a.slice_cols(block * width, std::min(width, a.cols() - block * width));
}

void add_to(MatrixView<const float> from, MatrixView<double> to, bool upper) {
    for (std::size_t r = 0; r < from.rows(); ++r) {
        const auto in = from.row(r);
        const auto out = to.row(r);
        for (std::size_t c = upper ? r : 0; c < in.size(); ++c) out[c] += in[c];
    }
}

// The upper triangle of z zᵀ, in blocks of fixed size, so the bits do not depend on the number of threads.
Matrix<double> row_products(MatrixView<const double> z, const Exec& exec) {
    constexpr std::size_t kBlock = 256;
    Matrix<double> gram(z.rows(), z.rows());
    const auto blocks = upper_blocks((z.rows() + kBlock - 1) / kBlock);
    const auto rows_of = [&](auto a, std::size_t block) {
        return a.slice_rows(block * kBlock, std::min(kBlock, a.rows() - block * kBlock));
    };
    parallel_for(exec, blocks.size(), [&](std::size_t b) {
        const auto [i, j] = blocks[b];
        gemm_nt(rows_of(z, i), rows_of(z, j), block_cols(rows_of(gram.view(), i), kBlock, j));
    });
    return gram;
}

// zᵀ a
Matrix<double> transposed_product(MatrixView<const double> z, const Matrix<double>& a, const Exec& exec) {
    constexpr std::size_t kCols = 512;
    Matrix<double> out(z.cols(), a.cols());
    parallel_for(exec, (z.cols() + kCols - 1) / kCols, [&](std::size_t task) {
        const std::size_t end = std::min(z.cols(), (task + 1) * kCols);
        for (std::size_t r = 0; r < z.rows(); ++r) {
            const auto in = z.row(r);
            for (std::size_t c = task * kCols; c < end; ++c) {
                for (std::size_t k = 0; k < a.cols(); ++k) out(c, k) += in[c] * a(r, k);
            }
        }
    });
    return out;
}

double column_sum(const Matrix<double>& a, std::size_t col) {
    double sum = 0.0;
    for (std::size_t r = 0; r < a.rows(); ++r) sum += a(r, col);
    return sum;
}

// The last column u of `a` is the solution for a right-hand side of ones. The intercept b of an output makes
// its coefficients a - b u sum to zero. Returns the intercepts.
std::vector<double> center(Matrix<double>& a) {
    const std::size_t outputs = a.cols() - 1;
    const double ones = column_sum(a, outputs);
    std::vector<double> intercept;
    for (std::size_t k = 0; k < outputs; ++k) {
        intercept.push_back(column_sum(a, k) / ones);
        for (std::size_t r = 0; r < a.rows(); ++r) a(r, k) -= intercept[k] * a(r, outputs);
    }
    return intercept;
}

// Multiply-adds of the products (one triangle) and the factorisation; the primal's products are in float, at
// twice the speed.
double primal_work(double features, double rows) {
    return rows * features * features / 4.0 + features * features * features / 6.0;
}
double dual_work(double features, double rows) {
    return rows * rows * features / 2.0 + rows * rows * rows / 6.0;
}

}  // namespace

Solver ridge_solver(std::size_t features, std::size_t rows) {
    const auto d = static_cast<double>(features);
    const auto n = static_cast<double>(rows);
    return rows > 0 && dual_work(d, n) < primal_work(d, n) ? Solver::dual : Solver::primal;
}

Fields fields(RidgeConfig& config) {
    return {field("alpha", config.alpha, {.help = "Ridge penalty on squared weights", .min = 0.0}),
            field("intercept", config.intercept,
                  {.help = "Intercept: penalised like a weight, without penalty, or none"})};
}

RidgeRows::RidgeRows(std::size_t rows, std::size_t features, std::size_t outputs)
    : features_(features), width_(features + 1 + outputs), values_(rows, round_up(width_)) {
    for (std::size_t r = 0; r < rows; ++r) values_(r, features) = 1.0F;
}

MatrixView<float> RidgeRows::z(std::size_t first, std::size_t count) {
    return values_.view().slice_rows(first, count).slice_cols(0, features_);
}

std::span<float> RidgeRows::y(std::size_t row) {
    return values_.row(row).first(width_).subspan(features_ + 1);
}

MatrixView<const float> RidgeRows::view(std::size_t first, std::size_t count) const {
    return values_.view().slice_rows(first, count).slice_cols(0, width_);
}

RidgeAccumulator::RidgeAccumulator(std::size_t features, std::size_t outputs, const Team* team,
                                   std::size_t rows)
    : features_(features), outputs_(outputs), team_(team) {
    if (team_ == nullptr && ridge_solver(features, rows) == Solver::dual) {
        solver_ = Solver::dual;
        const auto n = static_cast<double>(rows);
        // The rows, their products, and the caller's features in float.
        check_fits_memory(n, 1.5 * static_cast<double>(width()) + n, sizeof(double), "the dual ridge system");
        kept_ = Matrix<double>(rows, width());
        return;
    }
    const auto p = static_cast<double>(features) + static_cast<double>(outputs) + 1.0;
    // The products, and a copy for the solver.
    check_fits_memory(2.0 * p, p, sizeof(double), "the normal equations");
    const std::size_t lanes = cut_for(width()).lanes;
    if (team_ != nullptr) workers_ = std::min(std::bit_floor(team_->size()), lanes);
    buffer_ = Matrix<float>(kRowsPerTile, width());
    const bool works = team_ == nullptr || team_->rank() < workers_;
    for (std::size_t lane = 0; works && lane < lanes / workers_; ++lane) {
        lanes_.emplace_back(width(), width());
    }
}

double RidgeAccumulator::memory_bytes(std::size_t features, std::size_t outputs, std::size_t rows) {
    const std::size_t width = features + 1 + outputs;
    const auto p = static_cast<double>(width);
    const auto n = static_cast<double>(rows);
    if (ridge_solver(features, rows) == Solver::dual) return n * (p + n) * sizeof(double);
    return (static_cast<double>(cut_for(width).lanes) + 1.0) * p * p * sizeof(double);
}

std::size_t RidgeAccumulator::first_tile() const {
    if (team_ == nullptr) return 0;
    return team_->rank() < workers_ ? team_->rank() : std::numeric_limits<std::size_t>::max() / kRowsPerTile;
}

void RidgeAccumulator::add(MatrixView<const float> rows, const Exec& exec) {
    assert(rows.cols() == width());
    if (solver_ == Solver::dual) {
        assert(kept_rows_ + rows.rows() <= kept_.rows());
        for (std::size_t r = 0; r < rows.rows(); ++r)
            std::ranges::copy(rows.row(r), kept_.row(kept_rows_++).begin());
        return;
    }
    std::size_t first = 0;
    while (first < rows.rows()) {
        const std::size_t left = rows.rows() - first;
        if (buffered_ == 0 && left >= kRowsPerTile) {
            const std::size_t whole = left - left % kRowsPerTile;
            add_tiles(rows.slice_rows(first, whole), exec);
            first += whole;
            continue;
        }
        const std::size_t count = std::min(left, kRowsPerTile - buffered_);
        for (std::size_t r = 0; r < count; ++r) {
            std::ranges::copy(rows.row(first + r), buffer_.row(buffered_ + r).begin());
        }
        buffered_ += count;
        first += count;
        if (buffered_ == kRowsPerTile) {
            add_tiles(std::as_const(buffer_).view(), exec);
            buffered_ = 0;
        }
    }
}

void RidgeAccumulator::add_tiles(MatrixView<const float> rows, const Exec& exec) {
    const auto cut = cut_for(width());
    const std::size_t size = cut.block_width;
    const std::size_t lanes = lanes_.size();
    const auto blocks = upper_blocks(cut.blocks);
    parallel_for_workers(exec, blocks.size() * lanes, [&] {
        return [&, scratch = Matrix<float>(size, size), left = ops::Panels(),
                right = ops::Panels()](std::size_t piece) mutable {
            const auto [i, j] = blocks[piece / lanes];
            const std::size_t lane = piece % lanes;
            const auto left_cols = block_cols(rows, size, i);
            const auto right_cols = block_cols(rows, size, j);
            const auto part = scratch.view().slice_rows(0, left_cols.cols()).slice_cols(0, right_cols.cols());
            const auto band = lanes_[lane].view().slice_rows(i * size, left_cols.cols());
            const std::size_t tile = (lane + lanes - tiles_ % lanes) % lanes;  // first tile of the lane
            for (std::size_t first = tile * kRowsPerTile; first < rows.rows();
                 first += lanes * kRowsPerTile) {
                const std::size_t n = std::min(kRowsPerTile, rows.rows() - first);
                ops::repack(left_cols.slice_rows(first, n), left);
                if (i == j) {
                    ops::multiply_transposed_upper(left, part);
                } else {
                    ops::repack(right_cols.slice_rows(first, n), right);
                    ops::multiply_transposed(left, right, part);
                }
                add_to(part, block_cols(band, size, j), i == j);
            }
        };
    });
    tiles_ += (rows.rows() + kRowsPerTile - 1) / kRowsPerTile;
}

void RidgeAccumulator::join_lanes(const Exec& exec) {
    const auto add_matrix = [&](const Matrix<double>& from, Matrix<double>& to) {
        parallel_for(exec, width(), [&](std::size_t r) {
            const auto in = from.row(r);
            const auto out = to.row(r);
            for (std::size_t c = r; c < in.size(); ++c) out[c] += in[c];
        });
    };
    // A member has every workers_-th lane, so the tree of sums over lanes continues over members.
    for (std::size_t half = lanes_.size() / 2; half > 0; half /= 2) {
        for (std::size_t lane = 0; lane < half; ++lane) add_matrix(lanes_[lane + half], lanes_[lane]);
    }
    if (!lanes_.empty()) lanes_.resize(1);
    if (team_ == nullptr) return;
    for (std::size_t half = workers_ / 2; half > 0; half /= 2) {
        const std::size_t rank = team_->rank();
        if (rank >= half && rank < 2 * half) team_->send(rank - half, lanes_[0].values());
        if (rank < half) {
            Matrix<double> other(width(), width());
            team_->receive(rank + half, other.values());
            add_matrix(other, lanes_[0]);
        }
    }
}

RidgeWeights RidgeAccumulator::solve(const RidgeConfig& config, const Exec& exec) {
    if (solver_ == Solver::dual) return solve_dual(config, exec);
    if (buffered_ > 0) {
        add_tiles(std::as_const(buffer_).view().slice_rows(0, std::exchange(buffered_, 0)), exec);
    }
    join_lanes(exec);
    if (team_ == nullptr) return solve_joined(config, exec);
    auto weights = team_->rank() == 0 ? solve_joined(config, exec)
                                      : RidgeWeights{.w = Matrix<double>(features_, outputs_),
                                                     .intercept = std::vector<double>(outputs_)};
    broadcast(*team_, weights.w.values());
    broadcast(*team_, weights.intercept);
    return weights;
}

RidgeWeights RidgeAccumulator::solve_joined(const RidgeConfig& config, const Exec& exec) {
    const auto& products = lanes_.front();
    if (products(features_, features_) == 0.0) {
        fail(ErrorCode::bad_data, "a ridge fit needs at least one row");
    }
    // Unknowns: the weights, then the intercept, if any.
    const std::size_t unknowns = features_ + (config.intercept == Intercept::none ? 0 : 1);
    Matrix<double> a(unknowns, unknowns);
    Matrix<double> b(unknowns, outputs_);
    for (std::size_t i = 0; i < unknowns; ++i) {
        const auto row = products.row(i);
        std::ranges::copy(row.subspan(i, unknowns - i), a.row(i).subspan(i).begin());
        std::ranges::copy(row.subspan(features_ + 1), b.row(i).begin());
        const bool penalized = i < features_ || config.intercept == Intercept::penalized;
        if (penalized) a(i, i) += config.alpha;
    }
    solve_positive_definite(a.view(), b.view(), kSystem, exec);
    RidgeWeights weights{.w = Matrix<double>(features_, outputs_),
                         .intercept = std::vector<double>(outputs_)};
    for (std::size_t i = 0; i < features_; ++i) std::ranges::copy(b.row(i), weights.w.row(i).begin());
    if (unknowns > features_) std::ranges::copy(b.row(features_), weights.intercept.begin());
    return weights;
}

RidgeWeights RidgeAccumulator::solve_dual(const RidgeConfig& config, const Exec& exec) {
    if (kept_rows_ == 0) fail(ErrorCode::bad_data, "a ridge fit needs at least one row");
    const auto rows = std::as_const(kept_).view().slice_rows(0, kept_rows_);
    const bool penalized = config.intercept == Intercept::penalized;
    const bool free = config.intercept == Intercept::free;
    const auto z = rows.slice_cols(0, features_ + (penalized ? 1 : 0));
    auto gram = row_products(z, exec);
    Matrix<double> a(kept_rows_, outputs_ + (free ? 1 : 0));
    for (std::size_t r = 0; r < kept_rows_; ++r) {
        gram(r, r) += config.alpha;
        std::ranges::copy(rows.row(r).subspan(features_ + 1), a.row(r).begin());
        if (free) a(r, outputs_) = 1.0;
    }
    solve_positive_definite(gram.view(), a.view(), kSystem, exec);
    RidgeWeights weights{.w = Matrix<double>(features_, outputs_),
                         .intercept = std::vector<double>(outputs_)};
    if (free) weights.intercept = center(a);
    const auto product = transposed_product(z, a, exec);
    for (std::size_t i = 0; i < features_; ++i)
        std::ranges::copy(product.row(i).first(outputs_), weights.w.row(i).begin());
    if (penalized) std::ranges::copy(product.row(features_), weights.intercept.begin());
    return weights;
}

void ridge_predict(const RidgeWeights& weights, MatrixView<const float> z, const Exec& exec,
                   MatrixView<double> out) {
    assert(z.cols() == weights.w.rows() && out.rows() == z.rows() && out.cols() == weights.w.cols());
    // One row of weights per output, so that they are read in sequence.
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

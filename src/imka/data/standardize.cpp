#include "imka/data/standardize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"

namespace imka {
namespace {

constexpr std::size_t kTileRows = 4096;

std::size_t tiles_of(std::size_t rows) {
    return (rows + kTileRows - 1) / kTileRows;
}

MatrixView<const float> tile_of(MatrixView<const float> x, std::size_t tile) {
    const std::size_t first = tile * kTileRows;
    return x.slice_rows(first, std::min(kTileRows, x.rows() - first));
}

// Column sums of (x - centre)^power, power 1 or 2; tiles are added in a fixed tree.
std::vector<double> column_sums(MatrixView<const float> x, std::span<const double> centre, int power,
                                const Exec& exec) {
    const std::size_t tiles = tiles_of(x.rows());
    Matrix<double> sums(x.cols(), tiles);
    parallel_for(exec, tiles, [&](std::size_t t) {
        const auto rows = tile_of(x, t);
        for (std::size_t r = 0; r < rows.rows(); ++r) {
            for (std::size_t c = 0; c < rows.cols(); ++c) {
                const double v = static_cast<double>(rows(r, c)) - centre[c];
                sums(c, t) += power == 1 ? v : v * v;
            }
        }
    });
    std::vector<double> out(x.cols());
    for (std::size_t c = 0; c < x.cols(); ++c) out[c] = tree_sum(sums.row(c));
    return out;
}

// Compares values: the computed deviation of a constant column may be a rounding error instead of 0.
std::vector<bool> constant_columns(MatrixView<const float> x) {
    std::vector<bool> constant(x.cols(), true);
    for (std::size_t r = 1; r < x.rows(); ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
            if (x(r, c) != x(0, c)) constant[c] = false;
        }
    }
    return constant;
}

void note_constant(const std::vector<bool>& constant, const Exec& exec) {
    std::string columns;
    std::size_t count = 0;
    constexpr std::size_t kMostNamed = 10;
    for (std::size_t c = 0; c < constant.size(); ++c) {
        if (!constant[c] || ++count > kMostNamed) continue;
        columns += fmt::format("{}{}", columns.empty() ? "" : ", ", c + 1);
    }
    if (count == 0) return;
    if (count > kMostNamed) columns += ", ...";
    note(exec,
         fmt::format("{} of {} features are constant and become 0: {}", count, constant.size(), columns));
}

}  // namespace

Standardization compute_standardization(MatrixView<const float> x, const Exec& exec) {
    if (x.rows() == 0) fail(ErrorCode::bad_data, "no rows to standardise");
    const auto n = static_cast<double>(x.rows());
    const auto constant = constant_columns(x);
    // Centring on the first row keeps the digits of columns whose values are large and close together.
    std::vector<double> first(x.cols());
    for (std::size_t c = 0; c < x.cols(); ++c) first[c] = static_cast<double>(x(0, c));
    Standardization s;
    s.mean = column_sums(x, first, 1, exec);
    for (std::size_t c = 0; c < x.cols(); ++c) s.mean[c] = first[c] + s.mean[c] / n;
    s.std = column_sums(x, s.mean, 2, exec);
    for (std::size_t c = 0; c < x.cols(); ++c) {
        s.std[c] = constant[c] ? 1.0 : std::sqrt(s.std[c] / (n - 1.0));
    }
    note_constant(constant, exec);
    return s;
}

void apply_standardization(const Standardization& s, const Exec& exec, MatrixView<float> x) {
    if (s.mean.size() != x.cols() || s.std.size() != x.cols()) {
        fail(ErrorCode::bad_data,
             fmt::format("cannot standardise {} features with statistics of {}", x.cols(), s.mean.size()));
    }
    parallel_for(exec, tiles_of(x.rows()), [&](std::size_t t) {
        const std::size_t last = std::min(x.rows(), (t + 1) * kTileRows);
        for (std::size_t r = t * kTileRows; r < last; ++r) {
            for (std::size_t c = 0; c < x.cols(); ++c) {
                x(r, c) = static_cast<float>((static_cast<double>(x(r, c)) - s.mean[c]) / s.std[c]);
            }
        }
    });
}

}  // namespace imka

// Exact Gram matrices, pair by pair.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/kernel/kernel.hpp"

namespace imka {
namespace {

constexpr std::size_t kTileRows = 16;

void check_shapes(MatrixView<const float> x, MatrixView<const float> y, MatrixView<double> out) {
    if (x.cols() != y.cols()) {
        fail(ErrorCode::bad_usage,
             fmt::format("exact_gram: x has {} columns but y has {}", x.cols(), y.cols()));
    }
    if (out.rows() != x.rows() || out.cols() != y.rows()) {
        fail(ErrorCode::bad_usage, fmt::format("exact_gram: the result is {} x {}; it must be {} x {}",
                                               out.rows(), out.cols(), x.rows(), y.rows()));
    }
}

void check_gamma(const KernelRow& row, double gamma) {
    if (row.uses_gamma && !(gamma > 0.0 && std::isfinite(gamma))) {
        fail(ErrorCode::bad_config, fmt::format("gamma: {} is out of range; it must be finite and > 0 for {}",
                                                gamma, to_string(row.kernel)));
    }
}

}  // namespace

void exact_gram(Kernel kernel, double gamma, MatrixView<const float> x, MatrixView<const float> y,
                const Exec& exec, MatrixView<double> out) {
    const auto& row = kernel_row(kernel);
    check_gamma(row, gamma);
    check_shapes(x, y, out);
    const std::size_t tiles = (x.rows() + kTileRows - 1) / kTileRows;
    parallel_for(exec, tiles, [&](std::size_t tile) {
        const std::size_t end = std::min(x.rows(), (tile + 1) * kTileRows);
        for (std::size_t i = tile * kTileRows; i < end; ++i) {
            for (std::size_t j = 0; j < y.rows(); ++j) out(i, j) = row.value(x.row(i), y.row(j), gamma);
        }
    });
}

}  // namespace imka

#include "imka/chip/simulate/execute.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

void check_inputs(const Tiling& tiling, MatrixView<const float> x) {
    if (x.cols() != tiling.inputs)
        fail(ErrorCode::bad_data, fmt::format("inputs of length {}; the chip holds a matrix of {} inputs",
                                              x.cols(), tiling.inputs));
    for (std::size_t v = 0; v < x.rows(); ++v) {
        for (std::size_t i = 0; i < x.cols(); ++i) {
            if (!std::isfinite(x(v, i)))
                fail(ErrorCode::bad_data,
                     fmt::format("input {} of row {} is {}; inputs must be finite", i, v, x(v, i)));
        }
    }
}

// As DigitalProjector: tiles of fixed height, so that a row's bits do not depend on its neighbours.
Matrix<float> digital_products(const Matrix<float>& weights, MatrixView<const float> x, const Exec& exec) {
    Matrix<float> y(x.rows(), weights.rows());
    const std::size_t tiles = (x.rows() + kTileRows - 1) / kTileRows;
    parallel_for(exec, tiles, [&](std::size_t t) {
        const std::size_t first = t * kTileRows;
        const std::size_t rows = std::min(kTileRows, x.rows() - first);
        Matrix<float> in(kTileRows, x.cols());
        Matrix<float> out(kTileRows, weights.rows());
        for (std::size_t r = 0; r < rows; ++r)
            std::copy(x.row(first + r).begin(), x.row(first + r).end(), in.row(r).begin());
        gemm_nt(in.view(), weights.view(), out.view());
        for (std::size_t r = 0; r < rows; ++r)
            std::copy(out.row(r).begin(), out.row(r).end(), y.row(first + r).begin());
    });
    return y;
}

void add_to(const Matrix<float>& part, float factor, MatrixView<float> sum) {
    for (std::size_t r = 0; r < part.rows(); ++r) {
        for (std::size_t c = 0; c < part.cols(); ++c) sum(r, c) += factor * part(r, c);
    }
}

// Outputs of one copy of the matrix, times a factor, added to y: tile by tile in a fixed order.
void add_replica(const ReadyChip& chip, std::size_t replica, MatrixView<const float> x, const ProductIds& ids,
                 float factor, const Exec& exec, MatrixView<float> y) {
    const auto& tiles = chip.tiling.tiles;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const auto part = fast_products(chip.cores[replica * tiles.size() + t],
                                        x.slice_cols(tiles[t].first_row, tiles[t].rows), ids, exec);
        add_to(part, factor, y.slice_cols(tiles[t].first_col, tiles[t].cols));
    }
}

// Product n goes to copy n mod R, as its product n / R.
void share_out(const ReadyChip& chip, MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
               MatrixView<float> y) {
    for (std::size_t r = 0; r < chip.replicas; ++r) {
        const std::size_t skip = (r + chip.replicas - ids.first % chip.replicas) % chip.replicas;
        if (skip >= x.rows()) continue;
        const std::size_t count = (x.rows() - skip + chip.replicas - 1) / chip.replicas;
        const std::size_t step = chip.replicas;
        const MatrixView<const float> mine(x.data() + skip * x.stride(), count, x.cols(), step * x.stride());
        const MatrixView<float> out(y.data() + skip * y.stride(), count, y.cols(), step * y.stride());
        const ProductIds numbers{.seed = ids.seed, .first = (ids.first + skip) / chip.replicas};
        add_replica(chip, r, mine, numbers, 1.0F, exec, out);
    }
}

}  // namespace

ReadyChip ready(const ChipMatrix& chip, const Exec& exec) {
    ReadyChip out{.tiling = chip.tiling,
                  .replicas = chip.replicas,
                  .replication = chip.replication,
                  .cores = {},
                  .ideal = {}};
    if (chip.state == ChipState::ideal) {
        out.tiling = {.inputs = chip.weights.rows(), .outputs = chip.weights.cols(), .tiles = {}};
        out.ideal = Matrix<float>(chip.weights.cols(), chip.weights.rows());
        for (std::size_t r = 0; r < chip.weights.rows(); ++r) {
            for (std::size_t c = 0; c < chip.weights.cols(); ++c) out.ideal(c, r) = chip.weights(r, c);
        }
        return out;
    }
    require_state(chip, ChipState::programmed, ChipState::compensated, "products");
    out.cores.resize(chip.cores.size());
    parallel_for(exec, chip.cores.size(),
                 [&](std::size_t c) { out.cores[c] = prepare(chip.cores[c], chip.time); });
    return out;
}

Matrix<float> chip_products(const ReadyChip& chip, MatrixView<const float> x, const ProductIds& ids,
                            const Exec& exec) {
    check_inputs(chip.tiling, x);
    if (chip.cores.empty()) return digital_products(chip.ideal, x, exec);
    Matrix<float> y(x.rows(), chip.tiling.outputs);
    if (chip.replication == Replication::throughput) {
        share_out(chip, x, ids, exec, y.view());
        return y;
    }
    const float share = 1.0F / static_cast<float>(chip.replicas);
    for (std::size_t r = 0; r < chip.replicas; ++r) add_replica(chip, r, x, ids, share, exec, y.view());
    return y;
}

ProductErrors product_errors(const ChipMatrix& chip, MatrixView<const float> x, const ProductIds& ids,
                             const Exec& exec) {
    const auto prepared = ready(chip, exec);
    const auto y = chip_products(prepared, x, ids, exec);
    const auto exact = exact_products(x, chip.weights.view());
    ProductErrors errors;
    errors.snr_db = signal_to_noise_db(y.view(), exact.view());
    errors.relative = std::pow(10.0, -errors.snr_db / 20.0);
    std::uint64_t clipped = 0;
    std::uint64_t inputs = 0;
    for (std::size_t c = 0; c < prepared.cores.size(); ++c) {
        const auto& tile = chip.tiling.tiles[c % chip.tiling.tiles.size()];
        const auto mine = x.slice_cols(tile.first_row, tile.rows);
        const auto counts = fast_counts(prepared.cores[c], mine, ids, exec);
        errors.conversions += counts.conversions;
        errors.saturated += counts.saturated;
        const double range = chip.cores[c].input_range;
        for (std::size_t v = 0; v < mine.rows(); ++v) {
            for (const float value : mine.row(v)) clipped += std::abs(value) > range ? 1 : 0;
        }
        inputs += mine.rows() * mine.cols();
    }
    if (inputs > 0) errors.clipped_inputs = static_cast<double>(clipped) / static_cast<double>(inputs);
    return errors;
}

}  // namespace imka

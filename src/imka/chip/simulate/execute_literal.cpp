#include "imka/chip/simulate/execute_literal.hpp"

#include <fmt/format.h>

#include <atomic>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/chip/simulate/literal.hpp"

namespace imka {
namespace {

struct Counters {
    std::atomic<std::uint64_t> conversions = 0;
    std::atomic<std::uint64_t> saturated = 0;
};

// Where one product goes: which copy, and its number there.
struct Turn {
    std::size_t replica = 0;
    ProductIds ids;
};

// One product of one copy of the matrix, times a factor, added to y.
void add_product(const ChipMatrix& chip, const Turn& turn, MatrixView<const float> x, float factor,
                 Counters& counters, std::span<float> y) {
    const auto& tiles = chip.tiling.tiles;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const auto& core = chip.cores[turn.replica * tiles.size() + t];
        const auto mine = x.slice_cols(tiles[t].first_row, tiles[t].rows);
        const auto part = literal_counts(core, mine, chip.time, turn.ids);
        counters.conversions += part.conversions;
        counters.saturated += part.saturated;
        for (std::size_t c = 0; c < tiles[t].cols; ++c) {
            const double steps = apply_affine(core.spec.affine, core.affine.columns[c], part.counts(0, c));
            y[tiles[t].first_col + c] +=
                factor * static_cast<float>(core.compensation[c] * core.affine.output_step *
                                            core.affine.columns[c].step * steps);
        }
    }
}

}  // namespace

LiteralProducts literal_chip_products(const ChipMatrix& chip, MatrixView<const float> x,
                                      const ProductIds& ids, const Exec& exec) {
    require_state(chip, ChipState::programmed, ChipState::compensated, "literal products");
    if (x.cols() != chip.weights.rows())
        fail(ErrorCode::bad_data, fmt::format("inputs of length {}; the chip holds a matrix of {} inputs",
                                              x.cols(), chip.weights.rows()));
    LiteralProducts out{.y = Matrix<float>(x.rows(), chip.weights.cols())};
    Counters counters;
    const bool average = chip.replication == Replication::average;
    const float share = average ? 1.0F / static_cast<float>(chip.replicas) : 1.0F;
    parallel_for(exec, x.rows(), [&](std::size_t v) {
        const auto input = x.slice_rows(v, 1);
        const std::uint64_t number = ids.first + v;
        if (!average) {
            const Turn turn{.replica = number % chip.replicas,
                            .ids = {.seed = ids.seed, .first = number / chip.replicas}};
            add_product(chip, turn, input, share, counters, out.y.row(v));
            return;
        }
        for (std::size_t r = 0; r < chip.replicas; ++r)
            add_product(chip, {.replica = r, .ids = {.seed = ids.seed, .first = number}}, input, share,
                        counters, out.y.row(v));
    });
    out.conversions = counters.conversions;
    out.saturated = counters.saturated;
    return out;
}

}  // namespace imka

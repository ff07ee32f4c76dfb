#include "chip/measure.hpp"

#include <cmath>

#include "imka/chip/simulate/execute.hpp"
#include "imka/chip/simulate/execute_literal.hpp"

namespace imka::app {
namespace {

double share(std::uint64_t part, std::uint64_t all) {
    return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
}

double clipped_share(const ChipMatrix& chip, MatrixView<const float> x) {
    std::uint64_t clipped = 0;
    std::uint64_t inputs = 0;
    for (std::size_t c = 0; c < chip.cores.size(); ++c) {
        const auto& tile = chip.tiling.tiles[c % chip.tiling.tiles.size()];
        const auto mine = x.slice_cols(tile.first_row, tile.rows);
        for (std::size_t v = 0; v < mine.rows(); ++v) {
            for (const float value : mine.row(v)) {
                if (std::abs(value) > chip.cores[c].input_range) ++clipped;
            }
        }
        inputs += mine.rows() * mine.cols();
    }
    return share(clipped, inputs);
}

double saturated_share(const ChipMatrix& chip, const ReadyChip& prepared, MatrixView<const float> x,
                       const ProductIds& ids, const Exec& exec) {
    std::uint64_t saturated = 0;
    std::uint64_t conversions = 0;
    if (chip.spec.core.adc.max_count == 0) return 0.0;
    for (std::size_t c = 0; c < prepared.cores.size(); ++c) {
        const auto& tile = chip.tiling.tiles[c % chip.tiling.tiles.size()];
        const auto counts =
            fast_counts(prepared.cores[c], x.slice_cols(tile.first_row, tile.rows), ids, exec);
        saturated += counts.saturated;
        conversions += counts.conversions;
    }
    return share(saturated, conversions);
}

}  // namespace

Measurement measure(const ChipMatrix& chip, const MeasurePlan& plan, const Exec& exec) {
    Measurement m;
    const ProductIds ids{.seed = plan.seed};
    if (plan.simulator == Simulator::literal && chip.state != ChipState::ideal) {
        const auto products = literal_chip_products(chip, plan.inputs, ids, exec);
        m.parts = error_parts(plan.inputs, products.y.view(), plan.exact);
        m.saturated = share(products.saturated, products.conversions);
    } else {
        const auto prepared = ready(chip, exec);
        const auto y = chip_products(prepared, plan.inputs, ids, exec);
        m.parts = error_parts(plan.inputs, y.view(), plan.exact);
        m.saturated = saturated_share(chip, prepared, plan.inputs, ids, exec);
    }
    m.clipped = clipped_share(chip, plan.inputs);
    return m;
}

double measure_error(const ChipMatrix& chip, const MeasurePlan& plan, const Exec& exec) {
    const auto y = chip_products(ready(chip, exec), plan.inputs, {.seed = plan.seed}, exec);
    return std::pow(10.0, -signal_to_noise_db(y.view(), plan.exact) / 20.0);
}

Summary over_seeds(const MeasuredState& state, double (*quantity)(const Measurement&)) {
    std::vector<double> values;
    for (const auto& m : state.values) values.push_back(quantity(m));
    return summarize(std::move(values));
}

std::optional<Summary> over_seeds(const MeasuredState& state, std::optional<double> ErrorParts::*part) {
    std::vector<double> values;
    for (const auto& m : state.values) {
        if (!(m.parts.*part)) return std::nullopt;
        values.push_back(*(m.parts.*part));
    }
    return summarize(std::move(values));
}

}  // namespace imka::app

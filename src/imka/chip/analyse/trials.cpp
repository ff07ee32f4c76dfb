#include "imka/chip/analyse/trials.hpp"

#include <algorithm>
#include <cmath>

#include "imka/chip/simulate/execute.hpp"
#include "imka/chip/simulate/execute_literal.hpp"

namespace imka {
namespace {

Matrix<float> stacked(const Matrix<float>& a, const Matrix<float>& b) {
    Matrix<float> out(a.rows() + b.rows(), a.cols());
    std::ranges::copy(a.values(), out.values().begin());
    std::ranges::copy(b.values(), out.values().begin() + static_cast<std::ptrdiff_t>(a.values().size()));
    return out;
}

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

ChipMatrix build_chip(const ChipBuild& build, const Problem& problem, const Exec& exec) {
    auto chip = ideal_matrix(build.settings.spec, problem.weights, problem.seed);
    place(chip, build.placement);
    auto calibration = build.settings.calibration;
    if (build.settings.whole_range) {
        const auto all = stacked(problem.calibration, problem.inputs);
        calibration.inputs = all.rows();
        calibrate(chip, all.view(), calibration, exec);
    } else {
        calibrate(chip, problem.calibration.view(), calibration, exec);
    }
    program(chip, build.programming, exec);
    if (build.output_calibration) calibrate_outputs(chip, exec);
    return chip;
}

void validate(const ChipTrials& trials) {
    if (trials.programmed) return;
    const auto& config = trials.source.config;
    auto chip = ideal_matrix(trials.build.settings.spec, Matrix<float>(config.rows, config.cols), 0);
    place(chip, trials.build.placement);
}

ChipMatrix trial_chip(const ChipTrials& trials, const Problem& problem, const Exec& exec) {
    return trials.programmed ? *trials.programmed : build_chip(trials.build, problem, exec);
}

void compensate_by(ChipMatrix& chip, AgeCompensation kind, const Exec& exec) {
    switch (kind) {
        case AgeCompensation::none:
            return;
        case AgeCompensation::global:
            return compensate(chip, DriftCompensation::global);
        case AgeCompensation::column:
            return compensate(chip, DriftCompensation::column);
        case AgeCompensation::outputs:
            return calibrate_outputs(chip, exec);
    }
}

void age_and_compensate(ChipMatrix& chip, const AgedRead& read, const Exec& exec) {
    age(chip, read.time);
    if (read.time.seconds > 0.0) compensate_by(chip, read.compensation, exec);
}

std::uint64_t product_seed(std::uint64_t chip_seed) {
    return chip_seed + (std::uint64_t{1} << 40U);
}

Measurement measure(const ChipMatrix& chip, const Problem& problem, Simulator simulator, const Exec& exec) {
    Measurement m;
    const ProductIds ids{.seed = product_seed(problem.seed)};
    const auto x = problem.inputs.view();
    if (simulator == Simulator::literal && chip.state != ChipState::ideal) {
        const auto products = literal_chip_products(chip, x, ids, exec);
        m.parts = error_parts(x, products.y.view(), problem.exact.view());
        m.saturated = share(products.saturated, products.conversions);
    } else {
        const auto prepared = ready(chip, exec);
        const auto y = chip_products(prepared, x, ids, exec);
        m.parts = error_parts(x, y.view(), problem.exact.view());
        m.saturated = saturated_share(chip, prepared, x, ids, exec);
    }
    m.clipped = clipped_share(chip, x);
    return m;
}

double measure_error(const ChipMatrix& chip, const Problem& problem, const Exec& exec) {
    const auto y =
        chip_products(ready(chip, exec), problem.inputs.view(), {.seed = product_seed(problem.seed)}, exec);
    return std::pow(10.0, -signal_to_noise_db(y.view(), problem.exact.view()) / 20.0);
}

}  // namespace imka

#include "imka/chip/analyse/trials.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

}  // namespace

ProgrammedChip build_chip(const ChipBuild& build, const Problem& problem, const Exec& exec) {
    BuildSteps steps{.placement = build.placement,
                     .calibration = build.settings.calibration,
                     .programming = build.programming};
    if (!build.output_calibration) steps.output_fit.reset();
    Matrix<float> all;
    if (build.settings.whole_range) {
        all = stacked(problem.calibration, problem.inputs);
        steps.calibration.inputs = all.rows();
    }
    return build_chip(BuildJob{.chip = build.settings.spec,
                               .weights = problem.weights,
                               .sample = build.settings.whole_range ? all.view() : problem.calibration.view(),
                               .steps = steps,
                               .seed = problem.seed},
                      exec);
}

void validate(const ChipTrials& trials) {
    if (trials.programmed) return;
    const auto& config = trials.source.config;
    (void)place(trials.build.settings.spec, Matrix<float>(config.rows, config.cols), trials.build.placement);
}

ProgrammedChip trial_chip(const ChipTrials& trials, const Problem& problem, const Exec& exec) {
    return trials.programmed ? *trials.programmed : build_chip(trials.build, problem, exec);
}

ProgrammedChip aged_and_compensated(ProgrammedChip chip, const AgedRead& read, const Exec& exec) {
    chip = aged(std::move(chip), read.time);
    if (read.time.seconds == 0.0) return chip;
    return compensated(std::move(chip), read.compensation, OutputFit::applied, exec);
}

std::uint64_t product_seed(std::uint64_t chip_seed) {
    return chip_seed + (std::uint64_t{1} << 40U);
}

Measurement measure(const ProgrammedChip& chip, const Problem& problem, Simulator simulator,
                    const Exec& exec) {
    const auto driver = make_emulator(chip, simulator, exec);
    const auto [y, trace] =
        execute(*driver, 0, problem.inputs.view(), {.seed = product_seed(problem.seed)}, exec);
    return {.parts = error_parts(problem.inputs.view(), y.view(), problem.exact.view()),
            .saturated = share(trace.saturated, trace.conversions),
            .clipped = share(trace.clipped_inputs, trace.inputs)};
}

Measurement measure_digital(const Problem& problem, const Exec& exec) {
    const auto y = digital_products(problem.weights, problem.inputs.view(), exec);
    return {.parts = error_parts(problem.inputs.view(), y.view(), problem.exact.view())};
}

double measure_error(const ProgrammedChip& chip, const Problem& problem, const Exec& exec) {
    FastEmulator driver(chip, exec);
    const auto y = execute(driver, 0, problem.inputs.view(), {.seed = product_seed(problem.seed)}, exec).y;
    return std::pow(10.0, -signal_to_noise_db(y.view(), problem.exact.view()) / 20.0);
}

}  // namespace imka

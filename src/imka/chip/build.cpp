#include "imka/chip/build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

double root_mean_square(MatrixView<const float> x) {
    double sum = 0.0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (const float v : x.row(r)) sum += double{v} * v;
    }
    return std::sqrt(sum / static_cast<double>(x.rows() * x.cols()));
}

// Largest product of each output relative to the largest of all; empty if rows are not scaled. Inputs are
// clipped to a given range first, so outliers do not count.
std::vector<float> row_factors(const ProjectionJob& job, MatrixView<const float> inputs,
                               const CalibrationConfig& calibration) {
    if (!job.config.range_scaling) return {};
    Matrix<float> applied;
    if (calibration.range) {
        applied = applied_inputs(job.chip.core.dac, inputs, *calibration.range);
        inputs = applied.view();
    }
    const auto largest = largest_products(exact_products(inputs, transposed(job.omega.view()).view()));
    const double most = std::ranges::max(largest);
    std::vector<float> factors(largest.size());
    // An output without products cannot be scaled.
    std::ranges::transform(largest, factors.begin(),
                           [most](double l) { return l > 0.0 ? static_cast<float>(l / most) : 1.0F; });
    return factors;
}

}  // namespace

ProgrammedChip compensated(ProgrammedChip chip, AgeCompensation kind, OutputFit fit, const Exec& exec) {
    if (kind == AgeCompensation::none) return chip;
    if (kind == AgeCompensation::outputs) return with_calibrated_outputs(std::move(chip), fit, exec);
    return compensated(std::move(chip), kind == AgeCompensation::global ? DriftCompensation::global
                                                                        : DriftCompensation::column);
}

// Standard deviations use all rows: they depend on a few outliers that a sample may miss.
CalibrationConfig calibration_of(const BuildConfig& c, MatrixView<const float> x, double input_scale) {
    CalibrationConfig out{.inputs = static_cast<std::size_t>(c.calibration_inputs)};
    const bool alpha = c.input_alpha && *c.input_alpha > 0.0;
    out.input_range = c.input_range.value_or(alpha ? InputRangeRule::deviation : InputRangeRule::max);
    if (alpha) out.deviations = *c.input_alpha;
    if (out.input_range != InputRangeRule::deviation || x.rows() == 0) return out;
    out.range = out.deviations * root_mean_square(x) * input_scale;
    return out;
}

BuildSteps steps_of(const BuildConfig& config, const CalibrationConfig& calibration) {
    BuildSteps steps{.placement = config.placement,
                     .calibration = calibration,
                     .programming = {.method = config.programming},
                     .time = {.seconds = config.read_seconds, .spacing_seconds = config.read_spacing},
                     .compensation = config.compensation};
    if (config.output_calibration == OutputCalibration::nominal) steps.output_fit.reset();
    if (config.output_calibration == OutputCalibration::centred) steps.output_fit = OutputFit::centred;
    return steps;
}

ProgrammedChip build_chip(Plan plan, const BuildSteps& steps, std::uint64_t seed, const Exec& exec) {
    auto chip = program(std::move(plan), seed, steps.programming, exec);
    chip = aged(std::move(chip), {.seconds = 0.0, .spacing_seconds = steps.time.spacing_seconds});
    if (steps.output_fit) chip = with_calibrated_outputs(std::move(chip), *steps.output_fit, exec);
    chip = aged(std::move(chip), steps.time);
    return compensated(std::move(chip), steps.compensation, steps.output_fit.value_or(OutputFit::applied),
                       exec);
}

ProgrammedChip build_chip(BuildJob job, const Exec& exec) {
    const auto& steps = job.steps;
    auto plan = calibrated(place(job.chip, std::move(job.weights), steps.placement),
                           {.sample = job.sample,
                            .config = steps.calibration,
                            .seed = job.seed,
                            .second_moment = std::move(job.second_moment)},
                           exec);
    return build_chip(std::move(plan), steps, job.seed, exec);
}

BuiltChip build_chip(const ProjectionJob& job, const Exec& exec) {
    validate(job.config);
    const auto calibration = calibration_of(job.config, job.inputs, job.input_scale);
    // The rows used for calibration, as the chip receives them.
    auto inputs = calibration_inputs(calibration, job.inputs, job.seed);
    for (float& v : inputs.values()) v *= static_cast<float>(job.input_scale);
    BuiltChip out{.factors = row_factors(job, inputs.view(), calibration),
                  .lost_rows = static_cast<std::uint64_t>(job.config.lost_rows)};
    auto weights = transposed(job.omega.view());
    for (std::size_t r = 0; r < weights.rows() && !out.factors.empty(); ++r) {
        for (std::size_t c = 0; c < weights.cols(); ++c) weights(r, c) /= out.factors[c];
    }
    // Like standard deviations: a sample may miss outliers.
    Matrix<double> moment;
    if (job.chip.core.affine.limit.deviations > 0.0 && job.inputs.rows() > 0) {
        moment = second_moment(job.inputs);
        for (double& v : moment.values()) v *= job.input_scale * job.input_scale;
    }
    out.chip = build_chip(BuildJob{.chip = job.chip,
                                   .weights = std::move(weights),
                                   .sample = inputs.view(),
                                   .steps = steps_of(job.config, calibration),
                                   .seed = job.seed,
                                   .second_moment = std::move(moment)},
                          exec);
    return out;
}

Fields fields(BuildConfig& c) {
    Fields list = {
        field("input_range", c.input_range,
              {.help = "Range of a core's inputs; auto: max, or deviation with input_alpha"}),
        field("input_alpha", c.input_alpha,
              {.help = "Inputs are clipped at this many standard deviations; -1: no clipping; auto: by "
                       "input_range",
               .min = -1.0}),
        field("calibration_inputs", c.calibration_inputs,
              range::between(1, 1e6, "Training rows used to calibrate ranges and outputs")),
        field("programming", c.programming, {.help = "How devices are programmed"}),
        field("output_calibration", c.output_calibration,
              {.help = "Scale and offset of columns: fitted after programming, nominal, or fitted and "
                       "centred against truncation"}),
        field("read_seconds", c.read_seconds,
              range::not_negative("Time from programming to the products", "s")),
        field("read_spacing", c.read_spacing,
              range::not_negative("Time between two products; decides how much of the noise is new in each",
                                  "s")),
        field("compensation", c.compensation,
              {.help = "Drift compensation: one factor per core or per column, or recalibrated outputs"}),
        field("range_scaling", c.range_scaling,
              {.help = "Scale rows of the matrix to fill the output range, and scale outputs back"}),
        field(
            "lost_rows", c.lost_rows,
            range::not_negative("Return 0 for every n-th product, as inferred for one measured run; 0: off")),
    };
    for (auto& f : fields(c.placement)) list.push_back(std::move(f));
    return list;
}

void validate(const BuildConfig& config) {
    BuildConfig copy = config;
    check_ranges(fields(copy));
    if (!config.input_alpha) return;
    const double alpha = *config.input_alpha;
    if (alpha != -1.0 && alpha <= 0.0)
        fail(ErrorCode::bad_config,
             fmt::format("input_alpha: {}; it must be > 0, or -1 for no clipping", alpha));
    const auto meant = alpha > 0.0 ? InputRangeRule::deviation : InputRangeRule::max;
    if (config.input_range && *config.input_range != meant)
        fail(ErrorCode::bad_config,
             fmt::format("input_alpha {} implies input_range {}, not {}; set only one of them", alpha,
                         to_string(meant), to_string(*config.input_range)));
}

std::uint64_t derived_seed(std::uint64_t seed, std::uint32_t purpose) {
    // A bijection of (seed, purpose) under a separate key, so that no two pairs agree in all 128 bits.
    const auto block =
        philox4x32_10({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U), purpose, 0},
                      {0x63686970U, 0x73656564U});
    return (static_cast<std::uint64_t>(block[1]) << 32U) | block[0];
}

}  // namespace imka

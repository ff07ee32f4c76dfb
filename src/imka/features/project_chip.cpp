#include "imka/features/project_chip.hpp"

#include <fmt/format.h>
#include <cmath>

#include <algorithm>
#include <cassert>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

CalibrationConfig calibration_of(const ChipProjection& c) {
    CalibrationConfig out{.inputs = static_cast<std::size_t>(c.calibration_inputs)};
    const bool alpha = c.input_alpha && *c.input_alpha > 0.0;
    out.input_range = c.input_range.value_or(alpha ? InputRangeRule::deviation : InputRangeRule::max);
    if (alpha) out.deviations = *c.input_alpha;
    return out;
}

double root_mean_square(MatrixView<const float> x) {
    double sum = 0.0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (const float v : x.row(r)) sum += double{v} * v;
    }
    return std::sqrt(sum / static_cast<double>(x.rows() * x.cols()));
}

// Standard deviations are those of all rows offered: a few outliers decide them, and a sample may miss these.
CalibrationConfig calibration_of(const ChipProjection& c, MatrixView<const float> x, double input_scale) {
    auto out = calibration_of(c);
    if (out.input_range != InputRangeRule::deviation || x.rows() == 0) return out;
    out.input_range = InputRangeRule::given;
    out.range = out.deviations * root_mean_square(x) * input_scale;
    return out;
}

OutputFit output_fit(const ChipProjection& config) {
    return config.output_calibration == OutputCalibration::centred ? OutputFit::centred : OutputFit::applied;
}

void calibrate_if_asked(ChipMatrix& chip, const ChipProjection& config, const Exec& exec) {
    if (config.output_calibration != OutputCalibration::nominal)
        calibrate_outputs(chip, exec, output_fit(config));
}

void compensate_age(ChipMatrix& chip, const ChipProjection& config, const Exec& exec) {
    switch (config.compensation) {
        case AgeCompensation::none:
            return;
        case AgeCompensation::global:
            compensate(chip, DriftCompensation::global);
            return;
        case AgeCompensation::column:
            compensate(chip, DriftCompensation::column);
            return;
        case AgeCompensation::outputs:
            calibrate_outputs(chip, exec, output_fit(config));
            return;
    }
}

Matrix<float> transposed(const Matrix<float>& m) {
    Matrix<float> out(m.cols(), m.rows());
    for (std::size_t r = 0; r < m.rows(); ++r) {
        for (std::size_t c = 0; c < m.cols(); ++c) out(c, r) = m(r, c);
    }
    return out;
}

// For each output its largest product over that of all; empty where rows are left as they are. Inputs beyond
// a range that is given will not be applied: outliers do not count.
std::vector<float> row_factors(const ChipJob& job, MatrixView<const float> inputs,
                               const CalibrationConfig& calibration) {
    if (!job.config.range_scaling) return {};
    Matrix<float> applied;
    if (calibration.input_range == InputRangeRule::given) {
        applied = applied_inputs(job.chip.core.dac, inputs, calibration.range);
        inputs = applied.view();
    }
    const auto products = exact_products(inputs, transposed(job.omega).view());
    std::vector<double> largest(products.cols());
    for (std::size_t v = 0; v < products.rows(); ++v) {
        for (std::size_t c = 0; c < largest.size(); ++c)
            largest[c] = std::max(largest[c], std::abs(products(v, c)));
    }
    const double most = std::ranges::max(largest);
    std::vector<float> factors(largest.size());
    // An output without products has nothing to be scaled to.
    std::ranges::transform(largest, factors.begin(),
                           [most](double l) { return l > 0.0 ? static_cast<float>(l / most) : 1.0F; });
    return factors;
}

// A chip, and the factors that its outputs still need.
struct BuiltChip {
    ChipMatrix chip;
    std::vector<float> factors;
};

// Through all states, with the rows that calibration will use.
BuiltChip build_chip(const ChipJob& job, MatrixView<const float> inputs, const CalibrationConfig& calibration,
                     const Exec& exec) {
    const auto& config = job.config;
    validate(config);
    auto factors = row_factors(job, inputs, calibration);
    auto weights = transposed(job.omega);
    for (std::size_t r = 0; r < weights.rows() && !factors.empty(); ++r) {
        for (std::size_t c = 0; c < weights.cols(); ++c) weights(r, c) /= factors[c];
    }
    auto chip = ideal_matrix(job.chip, std::move(weights), job.seeds.chip);
    place(chip, {.replicas = config.replicas, .replication = config.replication});
    calibrate(chip, inputs, calibration, exec);
    (void)program(chip, {.method = config.programming}, exec);
    age(chip, {.seconds = 0.0, .spacing_seconds = config.read_spacing});
    calibrate_if_asked(chip, config, exec);
    age(chip, {.seconds = config.read_seconds, .spacing_seconds = config.read_spacing});
    compensate_age(chip, config, exec);
    return {.chip = std::move(chip), .factors = std::move(factors)};
}

std::unique_ptr<ChipProjector> make_projector(const ChipJob& job, const BuiltChip& built, const Exec& exec) {
    return std::make_unique<ChipProjector>(ready(built.chip, exec), job.seeds.products, built.factors,
                                           static_cast<std::uint64_t>(job.config.lost_rows));
}

}  // namespace

Fields fields(ChipProjection& c) {
    return {
        field("input_range", c.input_range,
              {.help = "Range of a core's inputs; auto: max, or deviation with input_alpha"}),
        field("input_alpha", c.input_alpha,
              {.help = "Inputs are clipped at this many standard deviations; -1: none is; auto: by "
                       "input_range",
               .min = -1.0}),
        field("calibration_inputs", c.calibration_inputs,
              {.help = "Training rows that ranges and outputs are calibrated on", .min = 1.0, .max = 1e6}),
        field("programming", c.programming, {.help = "How devices are programmed"}),
        field("output_calibration", c.output_calibration,
              {.help = "Scale and offset of columns: fitted after programming, nominal, or fitted and "
                       "centred against truncation"}),
        field("read_seconds", c.read_seconds,
              {.help = "Time from programming to the products", .unit = "s", .min = 0.0}),
        field(
            "read_spacing", c.read_spacing,
            {.help = "Time between two products: what is new in the noise of each", .unit = "s", .min = 0.0}),
        field("compensation", c.compensation,
              {.help = "Of drift: a factor a core or a column, or outputs calibrated again"}),
        field("range_scaling", c.range_scaling,
              {.help = "Rows of the matrix are scaled to fill the range of results, outputs scaled back"}),
        field("lost_rows", c.lost_rows,
              {.help = "Every n-th product comes back as 0, as in a measured run that lost some; 0: none",
               .min = 0.0}),
        field("replicas", c.replicas,
              {.help = "Copies of the matrix on the chip; 0: as many as fit", .min = 0.0, .max = 65536.0}),
        field("replication", c.replication,
              {.help = "Copies share inputs, or all take each and are averaged"}),
    };
}

void validate(const ChipProjection& config) {
    ChipProjection copy = config;
    check_ranges(fields(copy));
    if (!config.input_alpha) return;
    const double alpha = *config.input_alpha;
    if (alpha != -1.0 && alpha <= 0.0)
        fail(ErrorCode::bad_config,
             fmt::format("input_alpha: {}; it must be > 0, or -1 for inputs that are not clipped", alpha));
    const auto meant = alpha > 0.0 ? InputRangeRule::deviation : InputRangeRule::max;
    if (config.input_range && *config.input_range != meant)
        fail(ErrorCode::bad_config,
             fmt::format("input_alpha {} means input_range {}, not {}; give one of them", alpha,
                         to_string(meant), to_string(*config.input_range)));
}

std::uint64_t derived_seed(std::uint64_t seed, std::uint32_t purpose) {
    // A bijection of (seed, purpose) under a key of its own, so that no two of them meet in all 128 bits.
    const auto block =
        philox4x32_10({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U), purpose, 0},
                      {0x63686970U, 0x73656564U});
    return (static_cast<std::uint64_t>(block[1]) << 32U) | block[0];
}

void ChipProjector::project(MatrixView<const float> x, std::uint64_t first_row, MatrixView<float> u) const {
    const auto y = chip_products(chip_, x, {.seed = seed_, .first = first_row}, {.threads = 1});
    for (std::size_t r = 0; r < y.rows(); ++r) {
        if (lost_rows_ > 0 && (first_row + r) % lost_rows_ == lost_rows_ - 1)
            std::ranges::fill(u.row(r), 0.0F);
        else
            std::ranges::copy(y.row(r), u.row(r).begin());
        for (std::size_t c = 0; c < factors_.size(); ++c) u(r, c) *= factors_[c];
    }
}

std::unique_ptr<const Projector> make_chip_projector(const ChipJob& job, const Exec& exec) {
    const auto calibration = calibration_of(job.config, job.inputs, 1.0);
    const auto inputs = calibration_inputs(calibration, job.inputs, job.seeds.chip);
    return make_projector(job, build_chip(job, inputs.view(), calibration, exec), exec);
}

ChipMap chip_feature_map(const FeatureRecipe& recipe, const ChipJob& job, const Exec& exec) {
    const auto& omega = recipe.omega;
    const auto law = kernel_row(omega.kernel).feature_law(omega.gamma, static_cast<std::size_t>(omega.d));
    const auto calibration = calibration_of(job.config, job.inputs, law.input_scale);
    // The rows that calibration will use, as the projection gets them.
    auto inputs = calibration_inputs(calibration, job.inputs, job.seeds.chip);
    for (float& v : inputs.values()) v *= static_cast<float>(law.input_scale);
    const auto built = build_chip(job, inputs.view(), calibration, exec);
    return {.map = FeatureMap(recipe, make_projector(job, built, exec)),
            .state = built.chip.state,
            .cores = built.chip.core_count()};
}

}  // namespace imka

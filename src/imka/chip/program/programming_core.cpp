#include "imka/chip/program/programming_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/base/error.hpp"
#include "imka/chip/program/programming_gradient.hpp"
#include "imka/chip/region.hpp"

namespace imka {
namespace {

// Inputs from this number on are not used by any iteration.
constexpr std::uint64_t kFirstCheck = std::uint64_t{1} << 31U;

Matrix<float> net_of(const MappedWeights& mapped) {
    Matrix<float> net(mapped.plus_us.cols(), mapped.plus_us.rows());
    for (std::size_t r = 0; r < mapped.plus_us.rows(); ++r) {
        for (std::size_t c = 0; c < mapped.plus_us.cols(); ++c)
            net(c, r) = mapped.plus_us(r, c) - mapped.minus_us(r, c);
    }
    return net;
}

double weight_error(const ProgrammedRegion& region, const Matrix<float>& net_us) {
    double error = 0.0;
    double size = 0.0;
    for (std::size_t r = 0; r < region.rows(); ++r) {
        for (std::size_t c = 0; c < region.cols(); ++c) {
            const double target = net_us(c, r);
            const double e = double{region.plus.g_us(r, c)} - region.minus.g_us(r, c) - target;
            error += e * e;
            size += target * target;
        }
    }
    return size > 0.0 ? std::sqrt(error / size) : 0.0;
}

// Mean and standard deviation of max(x, 0) for a standard normal x.
constexpr double kHalfMean = 0.3989;
constexpr double kHalfDeviation = 0.5838;

// Largest standard deviation of random inputs at which no phase of any column saturates within four
// standard deviations of its charge: saturated products carry no information about weights.
double fitting_deviation(const CoreSpec& spec, const MappedWeights& mapped, double wanted) {
    if (spec.adc.max_count == 0) return wanted;
    double most = 0.0;  // charge of a phase per unit of standard deviation
    for (const auto* targets : {&mapped.plus_us, &mapped.minus_us}) {
        for (std::size_t c = 0; c < targets->cols(); ++c) {
            double sum = 0.0;
            double squares = 0.0;
            for (std::size_t r = 0; r < targets->rows(); ++r) {
                const double g = (*targets)(r, c);
                sum += g;
                squares += g * g;
            }
            most = std::max(most, kHalfMean * sum + 4.0 * kHalfDeviation * std::sqrt(squares));
        }
    }
    return most > 0.0 ? std::min(wanted, spec.adc.max_count / (spec.adc.counts_per_us * most)) : wanted;
}

GradientConfig fitted_inputs(const GradientConfig& config, const CoreSpec& spec,
                             const MappedWeights& mapped) {
    auto out = config;
    out.input_deviation = fitting_deviation(spec, mapped, config.input_deviation);
    return out;
}

// Columns fitted on one batch of inputs, and the error on another.
struct Check {
    std::vector<AffineColumn> columns;  // uS per measured uS
    double error = 0.0;
};
Check check_products(const ProgrammedRegion& region, const Matrix<float>& net_us,
                     const GradientConfig& config, const ReadTime& time, const Exec& exec) {
    const auto bar = crossbar_of(region, time);
    const auto batch = [&](std::uint64_t number) {
        const std::uint64_t first = kFirstCheck + number * config.inputs;
        const auto x = tuning_inputs(region, config.input_deviation, first, config.inputs);
        return std::pair{measure_products(region, bar, x, first, exec), exact_currents(x, net_us, exec)};
    };
    const auto [fit_y, fit_t] = batch(0);
    const auto [y, t] = batch(1);
    Check check;
    check.columns = fit_columns(fit_y, fit_t);
    check.error = relative_error(y, t, check.columns);
    return check;
}

// A job and the values derived from it.
struct Work {
    const Exec& exec;
    ProgrammingConfig config;
    PulseContext context;
    MappedWeights mapped;
    Matrix<float> net_us;
};

ProgrammingErrors errors_of(const Work& job, const ProgrammedRegion& region) {
    const ReadTime time{.seconds = 0.0, .spacing_seconds = job.config.gradient.spacing_seconds};
    return {.weight = weight_error(region, job.net_us),
            .product = check_products(region, job.net_us, job.config.gradient, time, job.exec).error};
}

struct Arrays {
    PulsedArray plus;
    PulsedArray minus;
};

Arrays fill(const Work& job, const ProgrammedRegion& region, const VerifyConfig& verify,
            ProgrammingCost& cost) {
    const auto method =
        job.config.method == ProgrammingMethod::verify ? FillMethod::equal : FillMethod::max_set;
    const auto plane = [&](const Matrix<float>& target_us, const DeviceIds& ids) {
        const FillJob filling{.target_us = target_us.view(), .ids = ids, .method = method, .verify = verify};
        return fill_array(job.context, filling, job.exec, cost);
    };
    auto plus = plane(job.mapped.plus_us, region.plus.ids);
    return {std::move(plus), plane(job.mapped.minus_us, region.minus.ids)};
}

void take_arrays(const Work& job, const Arrays& arrays, double end_seconds, ProgrammedRegion& region) {
    region.plus = array_state(job.context, arrays.plus, end_seconds);
    region.minus = array_state(job.context, arrays.minus, end_seconds);
}

void count_outcomes(const PulsedArray& array, ProgrammingResult& result) {
    result.polarities += array.outcomes.size();
    result.unreached += static_cast<std::uint64_t>(std::count_if(
        array.outcomes.begin(), array.outcomes.end(), [](const FillOutcome& o) { return !o.reached; }));
}

void check_pulses(const ChipSpec& chip, ProgrammingMethod method) {
    if (!chip.pulses)
        fail(ErrorCode::bad_config,
             fmt::format(
                 "chip '{}' has no section 'pulses', required for programming by {}; use the method {}",
                 chip.name, to_string(method), to_string(ProgrammingMethod::statistical)));
    validate(*chip.pulses);
}

// Errors of the same devices after one pulse each.
ProgrammingErrors errors_unverified(const Work& job, ProgrammedRegion region) {
    auto once = job.config.verify;
    once.max_pulses = 1;
    ProgrammingCost ignored;
    take_arrays(job, fill(job, region, once, ignored), 0.0, region);
    return errors_of(job, region);
}

void run_gradient(const Work& job, Arrays& arrays, ProgrammingResult& result) {
    auto& region = result.region;
    auto outcome = tune_by_products(
        {job.context, region, job.config.gradient, job.config.verify, job.net_us, arrays.plus, arrays.minus},
        job.exec, result.cost);
    take_arrays(job, arrays, outcome.end_seconds, region);
    result.steps = std::move(outcome.steps);
    const ReadTime time{.seconds = 0.0, .spacing_seconds = job.config.gradient.spacing_seconds};
    const auto check = check_products(region, job.net_us, job.config.gradient, time, job.exec);
    // From measured uS per share of the range to outputs; the nominal scale includes weight and range.
    for (std::size_t c = 0; c < check.columns.size(); ++c) {
        auto& column = region.affine.columns[c];
        const double steps_per_us = column.scale * region.spec.adc.counts_per_us;
        column.scale *= check.columns[c].scale;
        column.offset = check.columns[c].offset * steps_per_us;
    }
}

}  // namespace

void validate(const ProgrammingConfig& config) {
    validate(config.verify);
    validate(config.gradient);
}

ProgrammingResult program_region_by(const ProgrammingJob& job, const Exec& exec) {
    const auto& [chip, weights, scale, ids, config] = job;
    validate(config);
    ProgrammingResult result;
    result.region = program_region(chip, weights, scale, ids);
    const PulseModel unused;
    Work work{exec,
              config,
              {chip.device, chip.pulses ? *chip.pulses : unused, ids.seed},
              map_weights(weights, scale.column_us),
              {}};
    work.net_us = net_of(work.mapped);
    work.config.gradient = fitted_inputs(config.gradient, chip.core, work.mapped);
    if (config.method == ProgrammingMethod::statistical) {
        result.after = errors_of(work, result.region);
        result.before = result.after;
        return result;
    }
    check_pulses(chip, config.method);
    auto arrays = fill(work, result.region, config.verify, result.cost);
    count_outcomes(arrays.plus, result);
    count_outcomes(arrays.minus, result);
    take_arrays(work, arrays, 0.0, result.region);
    if (config.method == ProgrammingMethod::gradient_descent) {
        result.before = errors_of(work, result.region);
        run_gradient(work, arrays, result);
    } else {
        result.before = errors_unverified(work, result.region);
    }
    result.after = errors_of(work, result.region);
    return result;
}

ProgrammingErrors programming_errors(const ProgrammingJob& job, const ProgrammedRegion& region,
                                     const ReadTime& time, const Exec& exec) {
    validate(job.config);
    const auto mapped = map_weights(job.weights, job.scale.column_us);
    const auto net = net_of(mapped);
    const auto config = fitted_inputs(job.config.gradient, region.spec, mapped);
    return {.weight = weight_error(region, net),
            .product = check_products(region, net, config, time, exec).error};
}

}  // namespace imka

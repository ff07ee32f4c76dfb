#include "imka/chip/programming_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/base/error.hpp"
#include "imka/chip/mapping.hpp"
#include "imka/chip/programming_measure.hpp"

namespace imka {
namespace {

// Numbers of inputs that no iteration uses.
constexpr std::uint64_t kFirstCheck = std::uint64_t{1} << 31U;

Matrix<float> net_of(const MappedWeights& mapped) {
    Matrix<float> net(mapped.plus_us.cols(), mapped.plus_us.rows());
    for (std::size_t r = 0; r < mapped.plus_us.rows(); ++r) {
        for (std::size_t c = 0; c < mapped.plus_us.cols(); ++c)
            net(c, r) = mapped.plus_us(r, c) - mapped.minus_us(r, c);
    }
    return net;
}

double weight_error(const ProgrammedCore& core, const Matrix<float>& net_us) {
    double error = 0.0;
    double size = 0.0;
    for (std::size_t r = 0; r < core.used_rows(); ++r) {
        for (std::size_t c = 0; c < core.used_cols(); ++c) {
            const double target = net_us(c, r);
            const double e = double{core.plus.g_us(r, c)} - core.minus.g_us(r, c) - target;
            error += e * e;
            size += target * target;
        }
    }
    return size > 0.0 ? std::sqrt(error / size) : 0.0;
}

// Columns fitted on one batch of inputs, and the error on another.
struct Check {
    std::vector<AffineColumn> columns;  // uS per measured uS
    double error = 0.0;
};
Check check_products(const Exec& exec, const ProgrammedCore& core, const Matrix<float>& net_us,
                     const GradientConfig& config, const ReadTime& time) {
    const auto bar = crossbar_of(core, time);
    const auto seed = core.ids.seed;
    const auto batch = [&](std::uint64_t number) {
        const std::uint64_t first = kFirstCheck + number * config.inputs;
        const auto x = tuning_inputs(core.spec.dac, config.input_deviation, seed, first, config.inputs,
                                     core.used_rows());
        return std::pair{measure_products(exec, core.spec, core.adc, bar, x, {.seed = seed, .first = first}),
                         exact_currents(exec, x, net_us)};
    };
    const auto [fit_y, fit_t] = batch(0);
    const auto [y, t] = batch(1);
    Check check;
    check.columns = fit_columns(fit_y, fit_t);
    check.error = relative_error(y, t, check.columns);
    return check;
}

// One job with everything derived from it.
struct Job {
    const Exec& exec;
    const ProgrammingConfig& config;
    PulseContext context;
    MappedWeights mapped;
    Matrix<float> net_us;
};

ProgrammingErrors errors_of(const Job& job, const ProgrammedCore& core) {
    const ReadTime time{.seconds = 0.0, .spacing_seconds = job.config.gradient.spacing_seconds};
    return {.weight = weight_error(core, job.net_us),
            .product = check_products(job.exec, core, job.net_us, job.config.gradient, time).error};
}

struct Arrays {
    PulsedArray plus;
    PulsedArray minus;
};

Arrays fill(const Job& job, const ProgrammedCore& core, const VerifyConfig& verify, ProgrammingCost& cost) {
    const auto method =
        job.config.method == ProgrammingMethod::verify ? FillMethod::equal : FillMethod::max_set;
    const FillPlan plan{.method = method, .verify = verify};
    return {fill_array(job.exec, job.context, plan, job.mapped.plus_us.view(), core.plus.ids, cost),
            fill_array(job.exec, job.context, plan, job.mapped.minus_us.view(), core.minus.ids, cost)};
}

void take_arrays(const Job& job, const Arrays& arrays, double end_seconds, ProgrammedCore& core) {
    core.plus = array_state(job.context, arrays.plus, end_seconds);
    core.minus = array_state(job.context, arrays.minus, end_seconds);
}

void count_outcomes(const PulsedArray& array, ProgrammingResult& result) {
    result.polarities += array.outcomes.size();
    result.unreached += static_cast<std::uint64_t>(std::count_if(
        array.outcomes.begin(), array.outcomes.end(), [](const FillOutcome& o) { return !o.reached; }));
}

// The same devices with one pulse each.
ProgrammingErrors errors_unverified(const Job& job, ProgrammedCore core) {
    auto once = job.config.verify;
    once.max_pulses = 1;
    ProgrammingCost ignored;
    take_arrays(job, fill(job, core, once, ignored), 0.0, core);
    return errors_of(job, core);
}

void run_gradient(const Job& job, Arrays& arrays, ProgrammingResult& result) {
    auto& core = result.core;
    const GradientArrays both{job.mapped.plus_us, job.mapped.minus_us, arrays.plus, arrays.minus};
    auto outcome = tune_by_products(job.exec, job.context, core, job.config.gradient, both, job.config.verify,
                                    result.cost);
    take_arrays(job, arrays, outcome.end_seconds, core);
    result.steps = std::move(outcome.steps);
    const ReadTime time{.seconds = 0.0, .spacing_seconds = job.config.gradient.spacing_seconds};
    const auto check = check_products(job.exec, core, job.net_us, job.config.gradient, time);
    // From measured uS over shares of the range to outputs: the nominal scale holds weight and range.
    for (std::size_t c = 0; c < check.columns.size(); ++c) {
        auto& column = core.affine.columns[c];
        const double steps_per_us = column.scale * core.spec.adc.counts_per_us;
        column = {.scale = column.scale * check.columns[c].scale,
                  .offset = check.columns[c].offset * steps_per_us};
    }
}

}  // namespace

void validate(const ProgrammingConfig& config) {
    validate(config.verify);
    validate(config.gradient);
}

ProgrammingResult program_core_by(const Exec& exec, const ChipSpec& chip, MatrixView<const float> weights,
                                  const CoreMapping& mapping, const CoreIds& ids,
                                  const ProgrammingConfig& config) {
    validate(config);
    const bool pulsed = config.method != ProgrammingMethod::statistical;
    if (pulsed && !chip.pulses)
        fail(ErrorCode::bad_config,
             fmt::format("chip '{}' has no section 'pulses', which programming by {} needs; its "
                         "devices can be programmed by {}",
                         chip.name, to_string(config.method), to_string(ProgrammingMethod::statistical)));
    const PulseModel none;
    ProgrammingResult result;
    result.core = program_core(chip.core, chip.device, weights, mapping, ids);
    Job job{exec,
            config,
            {chip.device, chip.pulses ? *chip.pulses : none, ids.seed},
            map_weights(weights, mapping.column_us),
            {}};
    job.net_us = net_of(job.mapped);
    if (pulsed) {
        validate(*chip.pulses);
        auto arrays = fill(job, result.core, config.verify, result.cost);
        count_outcomes(arrays.plus, result);
        count_outcomes(arrays.minus, result);
        take_arrays(job, arrays, 0.0, result.core);
        if (config.method == ProgrammingMethod::gradient_descent) {
            result.before = errors_of(job, result.core);
            run_gradient(job, arrays, result);
        } else {
            result.before = errors_unverified(job, result.core);
        }
    }
    result.after = errors_of(job, result.core);
    if (!pulsed) result.before = result.after;
    return result;
}

ProgrammingErrors programming_errors(const Exec& exec, const ProgrammedCore& core,
                                     MatrixView<const float> weights, const CoreMapping& mapping,
                                     const GradientConfig& inputs, const ReadTime& time) {
    validate(inputs);
    const auto net = net_of(map_weights(weights, mapping.column_us));
    return {.weight = weight_error(core, net),
            .product = check_products(exec, core, net, inputs, time).error};
}

}  // namespace imka

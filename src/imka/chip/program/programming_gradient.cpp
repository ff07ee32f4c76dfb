#include "imka/chip/program/programming_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "imka/base/config.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/program/programming_measure.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

constexpr std::size_t kBlock = 64;  // outputs of one tile of the gradient

// State carried from one iteration to the next.
struct Loop {
    const Exec& exec;
    const GradientJob& job;
    const PulseContext& context;
    const GradientConfig& config;
    Matrix<float> net_us;             // targets, outputs x inputs
    Matrix<float> average;            // mean of the estimated errors, inputs x outputs
    std::vector<std::uint16_t> seen;  // iterations in each average
};

Matrix<float> net_targets(const GradientJob& job) {
    Matrix<float> net(job.plus.cols, job.plus.rows);
    for (std::size_t r = 0; r < job.plus.rows; ++r) {
        for (std::size_t c = 0; c < job.plus.cols; ++c)
            net(c, r) = job.plus_target_us(r, c) - job.minus_target_us(r, c);
    }
    return net;
}

// Variances of 1/f noise for Q_s g = 1: the part new in every product, and the part constant during a
// batch.
struct NoisePower {
    double fresh;
    double slow;
};
NoisePower noise_power(const Loop& k, double seconds) {
    const double t_read = k.context.device.t_read_seconds;
    const auto power = [&](double t) { return std::max(0.0, std::log((t + t_read) / (2.0 * t_read))); };
    const double total = power(seconds);
    const double fresh = std::min(total, power(k.config.spacing_seconds));
    return {fresh, total - fresh};
}

// One polarity at the current time, with the slow noise of this iteration.
void read_array(const Loop& k, const PulsedArray& array, std::uint64_t iteration, double seconds,
                Matrix<float>& g_us, Matrix<float>& variance) {
    const auto power = noise_power(k, seconds);
    parallel_for(k.exec, array.rows, [&](std::size_t r) {
        for (std::size_t c = 0; c < array.cols; ++c) {
            const auto now = polarity_at(k.context, array, r * array.cols + c, seconds);
            const double sd = now.noise_us * k.context.device.read_noise_scale;
            const std::uint64_t index = (iteration << 36U) | device_index(array.ids, r, c);
            const double z = normal(k.context.seed, Stream::chip_tuning_read, index);
            g_us(c, r) = static_cast<float>(std::max(0.0, now.g_us + sd * std::sqrt(power.slow) * z));
            variance(c, r) = static_cast<float>(sd * sd * power.fresh);
        }
    });
}

Crossbar crossbar_now(const Loop& k, std::uint64_t iteration, double seconds) {
    const std::size_t rows = k.job.plus.rows;
    const std::size_t cols = k.job.plus.cols;
    Crossbar bar{{cols, rows}, {cols, rows}, {cols, rows}, {cols, rows}};
    read_array(k, k.job.plus, iteration, seconds, bar.plus_us, bar.plus_variance);
    read_array(k, k.job.minus, iteration, seconds, bar.minus_us, bar.minus_variance);
    return bar;
}

// Expected excess of a polarity over its target because its adjustable device has not settled yet. Assumes
// the mean law of settling, as the verifying read does.
double unsettled_us(const Loop& k, const PulsedArray& array, std::size_t cell, double seconds) {
    const auto& outcome = array.outcomes[cell];
    const double t_0 = k.context.device.t_0_seconds;
    const double age = seconds - array.pulsed_seconds[cell * array.depth + outcome.adjustable];
    if (age >= t_0) return 0.0;
    return outcome.rest_us * (std::pow(age / t_0, -k.context.pulse.settling) - 1.0);
}

// Expected weights at the current time, outputs x inputs.
Matrix<float> expected_us(const Loop& k, double seconds) {
    auto net = k.net_us;
    parallel_for(k.exec, net.cols(), [&](std::size_t r) {
        for (std::size_t c = 0; c < net.rows(); ++c) {
            const std::size_t cell = r * net.rows() + c;
            net(c, r) += static_cast<float>(unsettled_us(k, k.job.plus, cell, seconds) -
                                            unsettled_us(k, k.job.minus, cell, seconds));
        }
    });
    return net;
}

// Replaces the products by their errors.
void subtract_exact(const std::vector<AffineColumn>& columns, const Matrix<float>& exact,
                    Matrix<float>& measured) {
    for (std::size_t v = 0; v < measured.rows(); ++v) {
        for (std::size_t c = 0; c < measured.cols(); ++c) {
            const double y = columns[c].scale * measured(v, c) + columns[c].offset;
            measured(v, c) = static_cast<float>(y - exact(v, c));
        }
    }
}

// Weight errors estimated from a batch, uS.
struct Estimate {
    Matrix<float> d;                 // d_ij = sum_b x_bi e_bj / sum_b x_bi²
    std::vector<double> column_rms;  // weight error of each column
};

Estimate weight_errors(const Loop& k, const Matrix<float>& x, const Matrix<float>& error) {
    Matrix<float> d(x.cols(), error.cols());
    std::vector<double> power(x.cols(), 0.0);
    for (std::size_t v = 0; v < x.rows(); ++v) {
        for (std::size_t i = 0; i < x.cols(); ++i) power[i] += double{x(v, i)} * x(v, i);
    }
    parallel_for(k.exec, (error.cols() + kBlock - 1) / kBlock, [&](std::size_t block) {
        const std::size_t first = block * kBlock;
        const std::size_t count = std::min(kBlock, error.cols() - first);
        const auto part = d.view().slice_cols(first, count);
        gemm_tn(x.view(), error.view().slice_cols(first, count), part);
        for (std::size_t i = 0; i < part.rows(); ++i) {
            for (auto& value : part.row(i))
                value = power[i] > 0.0 ? static_cast<float>(value / power[i]) : 0.0F;
        }
    });
    std::vector<double> rms(error.cols(), 0.0);
    for (std::size_t v = 0; v < error.rows(); ++v) {
        for (std::size_t c = 0; c < error.cols(); ++c) rms[c] += double{error(v, c)} * error(v, c);
    }
    const double input_power = std::accumulate(power.begin(), power.end(), 0.0);
    for (auto& value : rms) value = input_power > 0.0 ? std::sqrt(value / input_power) : 0.0;
    return {std::move(d), std::move(rms)};
}

// Amplitude that changes a device's conductance by -error, uS.
double next_current(const Loop& k, const PulsedDevice& d, double error) {
    const auto& p = k.context.pulse;
    // At the ends of its curve a device does not respond to small steps.
    if (d.at_set) return nominal_current_ua(p, p.set_mean_us - error);
    if (d.current_ua >= p.reset_ua) return nominal_current_ua(p, p.reset_us - error);
    const double step = k.config.rate * k.job.verify.gain_ua_per_us * error;
    return std::clamp(d.current_ua + step, 0.0, p.reset_ua);
}

// Pulses the adjustable device of a polarity once, if that can help; error: excess conductance of the
// polarity.
bool correct(const Loop& k, PulsedArray& array, std::size_t cell, double error, double seconds,
             ProgrammingCost& cost) {
    const std::size_t i = cell * array.depth + array.outcomes[cell].adjustable;
    auto& d = array.devices[i];
    if (d.at_set && error < 0.0) return false;
    if (d.current_ua >= k.context.pulse.reset_ua && error > 0.0) return false;
    const double current = next_current(k, d, error);
    pulse_device(k.context, d, current);
    array.pulsed_seconds[i] = seconds;
    add_pulse(k.context.pulse, current, cost);
    return true;
}

// Averages the estimates of one row of weights and pulses the devices beyond the dead band.
void correct_row(Loop& k, const Estimate& estimate, std::size_t r, double seconds, ProgrammingCost& cost) {
    const auto& d = estimate.d;
    const auto& device = k.context.device;
    const double band = k.config.dead_band * device.g_max_us / device.devices_per_polarity;
    for (std::size_t c = 0; c < d.cols(); ++c) {
        const std::size_t cell = r * d.cols() + c;
        auto& average = k.average(r, c);
        auto& seen = k.seen[cell];
        seen = static_cast<std::uint16_t>(std::min<int>(seen + 1, k.config.memory));
        average += (d(r, c) - average) / static_cast<float>(seen);
        const double doubt = k.config.caution * estimate.column_rms[c] / std::sqrt(static_cast<double>(seen));
        if (std::abs(average) <= band + doubt) continue;
        const bool held_by_plus = k.net_us(c, r) > 0.0F || (k.net_us(c, r) == 0.0F && average < 0.0F);
        auto& array = held_by_plus ? k.job.plus : k.job.minus;
        if (correct(k, array, cell, held_by_plus ? average : -average, seconds, cost)) seen = 0;
    }
}

std::uint64_t correct_all(Loop& k, const Estimate& estimate, double seconds, ProgrammingCost& cost) {
    std::vector<ProgrammingCost> costs(estimate.d.rows());
    parallel_for(k.exec, costs.size(),
                 [&](std::size_t r) { correct_row(k, estimate, r, seconds, costs[r]); });
    const auto before = cost.pulses;
    for (const auto& part : costs) add_cost(part, cost);
    return cost.pulses - before;
}

GradientStep iterate(Loop& k, std::uint64_t iteration, double seconds, ProgrammingCost& cost) {
    const auto& config = k.config;
    const std::uint64_t first = iteration * config.inputs;
    const auto x = tuning_inputs(k.job.region, config.input_deviation, first, config.inputs);
    auto y = measure_products(k.job.region, crossbar_now(k, iteration, seconds), x, first, k.exec);
    add_products(k.context.pulse, config.inputs, cost);
    const auto exact = exact_currents(x, expected_us(k, seconds), k.exec);
    const auto columns = fit_columns(y, exact);
    GradientStep step{.error = relative_error(y, exact, columns)};
    if (step.error <= config.target_error) return step;
    subtract_exact(columns, exact, y);
    step.pulses = correct_all(k, weight_errors(k, x, y), seconds, cost);
    return step;
}

Fields fields(GradientConfig& c) {
    return {
        field("inputs", c.inputs, range::between(2, 1e6, "products of one iteration")),
        field("input_deviation", c.input_deviation, range::positive("of the random inputs, in input ranges")),
        field("iterations", c.iterations, range::between(1, 1000, "at most")),
        field("target_error", c.target_error, range::not_negative("relative error at which to stop")),
        field("rate", c.rate, range::positive("share of an estimated error that a pulse removes")),
        field("dead_band", c.dead_band,
              range::not_negative("ignored error, relative to the largest target of a device")),
        field("caution", c.caution, range::not_negative("widens the dead band by the noise of estimates")),
        field("memory", c.memory, range::between(1, 1000, "iterations averaged by an estimate")),
        field("start", c.start_seconds, range::positive("from filling to the first iteration", "s")),
        field("iteration_seconds", c.iteration_seconds, range::positive("of one iteration", "s")),
        field("spacing", c.spacing_seconds, range::not_negative("between two products", "s")),
    };
}

}  // namespace

void validate(const GradientConfig& config) {
    GradientConfig copy = config;
    check_ranges(fields(copy));
}

GradientOutcome tune_by_products(const GradientJob& job, const Exec& exec, ProgrammingCost& cost) {
    const auto& config = job.config;
    validate(config);
    Loop k{exec, job, job.context, config, net_targets(job), {job.plus.rows, job.plus.cols}, {}};
    k.seen.assign(job.plus.rows * job.plus.cols, 0);
    GradientOutcome out;
    Progress progress(exec, "programming by products", static_cast<std::uint64_t>(config.iterations));
    for (int i = 0; i < config.iterations; ++i) {
        check_cancelled(exec);
        const double seconds = config.start_seconds + i * config.iteration_seconds;
        out.steps.push_back(iterate(k, static_cast<std::uint64_t>(i), seconds, cost));
        out.end_seconds = seconds;
        progress.update(static_cast<std::uint64_t>(i) + 1);
        if (out.steps.back().pulses == 0) break;
    }
    cost.seconds += out.end_seconds;
    return out;
}

}  // namespace imka

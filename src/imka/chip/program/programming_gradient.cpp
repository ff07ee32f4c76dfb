#include "imka/chip/program/programming_gradient.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>

#include "imka/base/config.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

constexpr std::uint64_t kPhases = 4;

template <class F>
Matrix<float> mapped(MatrixView<const float> x, F f) {
    Matrix<float> out(x.rows(), x.cols());
    for (std::size_t r = 0; r < x.rows(); ++r)
        std::transform(x.row(r).begin(), x.row(r).end(), out.row(r).begin(), f);
    return out;
}

float positive(float x) {
    return std::max(x, 0.0F);
}
float negative(float x) {
    return std::max(-x, 0.0F);
}
float squared(float x) {
    return x * x;
}

const Exec kGradientExec{.threads = 1};

// Charge of a phase for a batch of products, and its variance from device noise.
struct Phase {
    Matrix<float> charge_us;
    Matrix<float> variance;
};

Phase phase_of(const Matrix<float>& durations, const Matrix<float>& g_us, const Matrix<float>& variance) {
    Phase p{{durations.rows(), g_us.rows()}, {durations.rows(), g_us.rows()}};
    gemm_nt_rows(durations.view(), g_us.view(), kGradientExec, p.charge_us.view());
    gemm_nt_rows(mapped(durations.view(), squared).view(), variance.view(), kGradientExec, p.variance.view());
    return p;
}

// Products of one region, numbered from `first`.
struct Batch {
    const ProgrammedRegion& region;
    std::uint64_t first;
};

std::uint64_t conversion_index(const Batch& t, std::size_t row, std::size_t column, std::uint64_t phase) {
    const std::uint64_t number = first_column(t.region.spec, t.region.ids) + column;
    return ((t.first + row) << 32U) | (number * kPhases + phase);
}

double noise_counts(const Batch& t, const AdcColumn& column, double variance, std::uint64_t index) {
    const double device = t.region.spec.adc.counts_per_us * column.gain;
    const double converter = t.region.spec.adc.noise_counts;
    const double power = device * device * variance + converter * converter;
    return power > 0.0 ? std::sqrt(power) * normal(t.region.ids.seed, Stream::chip_tuning_product, index)
                       : 0.0;
}

// Adds sign * counts of a phase, in uS.
template <class Convert>
void add_phase(const Batch& t, const Phase& phase, std::uint64_t number, double sign, Convert convert,
               MatrixView<float> out) {
    const double scale = t.region.spec.adc.counts_per_us;
    for (std::size_t v = 0; v < out.rows(); ++v) {
        for (std::size_t c = 0; c < out.cols(); ++c) {
            const std::uint64_t index = conversion_index(t, v, c, number);
            const double noise = noise_counts(t, t.region.adc[c], phase.variance(v, c), index);
            const double counts =
                convert(t.region.spec.adc, t.region.adc[c], scale * phase.charge_us(v, c), noise);
            out(v, c) += static_cast<float>(sign * counts / scale);
        }
    }
}

void measure_four(const Batch& t, const Crossbar& bar, MatrixView<const float> x, MatrixView<float> out) {
    const auto plus = mapped(x, positive);
    const auto minus = mapped(x, negative);
    add_phase(t, phase_of(plus, bar.plus_us, bar.plus_variance), 0, +1.0, convert, out);
    add_phase(t, phase_of(minus, bar.minus_us, bar.minus_variance), 1, +1.0, convert, out);
    add_phase(t, phase_of(plus, bar.minus_us, bar.minus_variance), 2, -1.0, convert, out);
    add_phase(t, phase_of(minus, bar.plus_us, bar.plus_variance), 3, -1.0, convert, out);
}

void measure_one(const Batch& t, const Crossbar& bar, MatrixView<const float> x, MatrixView<float> out) {
    const auto durations = mapped(x, std::identity());
    auto p = phase_of(durations, bar.plus_us, bar.plus_variance);
    const auto m = phase_of(durations, bar.minus_us, bar.minus_variance);
    const auto combine = [](Matrix<float>& a, const Matrix<float>& b, float sign) {
        for (std::size_t i = 0; i < a.values().size(); ++i) a.values()[i] += sign * b.values()[i];
    };
    combine(p.charge_us, m.charge_us, -1.0F);
    combine(p.variance, m.variance, 1.0F);
    const auto convert_either = [](const AdcConfig& config, const AdcColumn& column, double charge,
                                   double noise) {
        return convert_signed(config, column, charge, {.counts = noise});
    };
    add_phase(t, p, 0, +1.0, convert_either, out);
}

constexpr std::size_t kBlock = 64;  // outputs of one tile of the gradient

// State carried from one iteration to the next.
struct Loop {
    const Exec& exec;
    const GradientJob& job;
    const PulseContext& context;
    const GradientConfig& config;
    Matrix<float> average;            // mean of the estimated errors, inputs x outputs
    std::vector<std::uint16_t> seen;  // iterations in each average
};

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
    auto net = k.job.net_us;
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
        const bool held_by_plus = k.job.net_us(c, r) > 0.0F || (k.job.net_us(c, r) == 0.0F && average < 0.0F);
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
        field("iterations", c.iterations, range::between(1, 1000, "maximum number of iterations")),
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

Matrix<float> tuning_inputs(const ProgrammedRegion& region, double deviation, std::uint64_t first,
                            std::size_t count) {
    Matrix<float> x(count, region.rows());
    fill_normal(region.ids.seed, Stream::chip_tuning_input, first * x.cols(), x.values());
    const double levels = region.spec.dac.levels;
    for (auto& v : x.values())
        v = static_cast<float>(std::clamp(std::nearbyint(v * deviation * levels), -levels, levels) / levels);
    return x;
}

Crossbar crossbar_of(const ProgrammedRegion& region, const ReadTime& time) {
    const auto plus = conductances_at(region.device, region.plus, time);
    const auto minus = conductances_at(region.device, region.minus, time);
    const auto variance = [](const Matrix<float>& sd) {
        return transposed(mapped(sd.view(), squared).view());
    };
    return {transposed(plus.g_us.view()), transposed(minus.g_us.view()), variance(plus.fresh_sd_us),
            variance(minus.fresh_sd_us)};
}

Matrix<float> measure_products(const ProgrammedRegion& region, const Crossbar& crossbar,
                               const Matrix<float>& inputs, std::uint64_t first, const Exec& exec) {
    assert(region.adc.size() == crossbar.plus_us.rows() && inputs.cols() == crossbar.plus_us.cols());
    Matrix<float> out(inputs.rows(), region.adc.size());
    const auto measure = region.spec.read_mode == ReadMode::four_phase ? measure_four : measure_one;
    const std::size_t batches = (inputs.rows() + kTileRows - 1) / kTileRows;
    parallel_for(exec, batches, [&](std::size_t i) {
        const std::size_t begin = i * kTileRows;
        const std::size_t count = std::min(kTileRows, inputs.rows() - begin);
        measure({region, first + begin}, crossbar, inputs.view().slice_rows(begin, count),
                out.view().slice_rows(begin, count));
    });
    return out;
}

Matrix<float> exact_currents(const Matrix<float>& inputs, const Matrix<float>& net_us, const Exec& exec) {
    assert(inputs.cols() == net_us.cols());
    Matrix<float> out(inputs.rows(), net_us.rows());
    gemm_nt_rows(inputs.view(), net_us.view(), exec, out.view());
    return out;
}

std::vector<AffineColumn> fit_columns(const Matrix<float>& measured, const Matrix<float>& exact) {
    assert(measured.rows() == exact.rows() && measured.cols() == exact.cols());
    const std::size_t cols = measured.cols();
    const auto n = static_cast<double>(measured.rows());
    std::vector<std::array<double, 4>> sums(cols);  // y, t, y², y t
    for (std::size_t v = 0; v < measured.rows(); ++v) {
        for (std::size_t c = 0; c < cols; ++c) {
            const double y = measured(v, c);
            const double t = exact(v, c);
            auto& s = sums[c];
            s[0] += y;
            s[1] += t;
            s[2] += y * y;
            s[3] += y * t;
        }
    }
    std::vector<AffineColumn> out;
    for (const auto& s : sums) {
        const double variance = s[2] - s[0] * s[0] / n;
        const double scale = variance > 0.0 ? (s[3] - s[0] * s[1] / n) / variance : 0.0;
        out.push_back({.scale = scale, .offset = (s[1] - scale * s[0]) / n});
    }
    return out;
}

double relative_error(const Matrix<float>& measured, const Matrix<float>& exact,
                      std::span<const AffineColumn> columns) {
    double error = 0.0;
    double size = 0.0;
    for (std::size_t v = 0; v < measured.rows(); ++v) {
        for (std::size_t c = 0; c < measured.cols(); ++c) {
            const double t = exact(v, c);
            const double e = columns[c].scale * measured(v, c) + columns[c].offset - t;
            error += e * e;
            size += t * t;
        }
    }
    return size > 0.0 ? std::sqrt(error / size) : 0.0;
}

void validate(const GradientConfig& config) {
    GradientConfig copy = config;
    check_ranges(fields(copy));
}

GradientOutcome tune_by_products(const GradientJob& job, const Exec& exec, ProgrammingCost& cost) {
    const auto& config = job.config;
    validate(config);
    Loop k{exec, job, job.context, config, {job.plus.rows, job.plus.cols}, {}};
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

#include "imka/chip/program/programming_array.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/parallel.hpp"

namespace imka {
namespace {

double device_max_us(const PulseContext& c) {
    return c.device.g_max_us / c.device.devices_per_polarity;
}

double read_at_set(const PulseContext& c, PulsedDevice& d, ProgrammingCost& cost) {
    set_device(c, d);
    add_set(c.pulse, cost);
    add_verify(c, cost);
    return verify_device(c, d);
}

void reset_counted(const PulseContext& c, PulsedDevice& d, ProgrammingCost& cost) {
    reset_device(c, d);
    add_pulse(c.pulse, c.pulse.reset_ua, cost);
}

// Pulses the device from SET down to the target.
VerifyOutcome approach(const PulseContext& c, const VerifyConfig& config, double target_us, PulsedDevice& d,
                       ProgrammingCost& cost) {
    const double tolerance = config.tolerance * device_max_us(c);
    double current = nominal_current_ua(c.pulse, target_us);
    VerifyOutcome out;
    for (int k = 0; k < config.max_pulses; ++k) {
        pulse_device(c, d, current);
        add_pulse(c.pulse, current, cost);
        add_verify(c, cost);
        out.read_us = verify_device(c, d);
        const double error = out.read_us - target_us;
        out.reached = std::abs(error) <= tolerance;
        if (out.reached) break;
        current = std::clamp(current + config.gain_ua_per_us * error, 0.0, c.pulse.reset_ua);
    }
    return out;
}

bool is_nothing(const PulseContext& c, double target_us) {
    return target_us <= c.pulse.reset_us;
}

Fields fields(VerifyConfig& c) {
    return {
        field("tolerance", c.tolerance,
              range::positive("accepted error, relative to the largest target of a device")),
        field("max_pulses", c.max_pulses, range::between(1, 1e9, "pulses per target")),
        field("gain", c.gain_ua_per_us, range::positive("change of amplitude per uS of error", "uA/uS")),
    };
}

constexpr double kDaySeconds = 86400.0;

void fill_cell(const PulseContext& c, const FillJob& job, std::size_t cell, PulsedArray& a,
               ProgrammingCost& cost) {
    const std::uint64_t polarity = device_index(a.ids, cell / a.cols, cell % a.cols);
    const std::span<PulsedDevice> devices(&a.devices[cell * a.depth], a.depth);
    for (std::size_t k = 0; k < a.depth; ++k) devices[k] = make_device(c, polarity * a.depth + k);
    const auto fill = job.method == FillMethod::equal ? equal_fill : max_set_fill;
    const double target_us = job.target_us(cell / a.cols, cell % a.cols);
    a.outcomes[cell] = fill(c, job.verify, target_us, devices, cost);
}

}  // namespace

void validate(const VerifyConfig& config) {
    VerifyConfig copy = config;
    check_ranges(fields(copy));
}

double nominal_current_ua(const PulseModel& p, double target_us) {
    const double above = target_us - p.reset_us;
    const double below = p.set_mean_us - target_us;
    if (above <= 0.0) return p.reset_ua;
    // Above the range of a nominal device: an amplitude that melts little.
    if (below <= 0.0) return std::max(0.0, p.half_mean_ua - 4.0 * p.width_ua);
    return std::clamp(p.half_mean_ua + p.width_ua * std::log(below / above), 0.0, p.reset_ua);
}

VerifyOutcome program_and_verify(const PulseContext& c, const VerifyConfig& config, double target_us,
                                 PulsedDevice& d, ProgrammingCost& cost) {
    if (is_nothing(c, target_us)) {
        reset_counted(c, d, cost);
        return {.reached = true, .read_us = 0.0};
    }
    const double at_set = read_at_set(c, d, cost);
    const double tolerance = config.tolerance * device_max_us(c);
    if (at_set <= target_us + tolerance)
        return {.reached = at_set >= target_us - tolerance, .read_us = at_set};
    return approach(c, config, target_us, d, cost);
}

FillOutcome max_set_fill(const PulseContext& c, const VerifyConfig& config, double target_us,
                         std::span<PulsedDevice> devices, ProgrammingCost& cost) {
    assert(!devices.empty());
    FillOutcome out;
    if (is_nothing(c, target_us)) {
        for (auto& d : devices) reset_counted(c, d, cost);
        return out;
    }
    std::vector<double> read(devices.size());
    for (std::size_t k = 0; k < devices.size(); ++k) read[k] = read_at_set(c, devices[k], cost);
    std::vector<std::size_t> order(devices.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return read[a] > read[b]; });
    double rest = target_us;
    std::size_t kept = 0;
    while (kept < order.size() && read[order[kept]] < rest) rest -= read[order[kept++]];
    if (kept == order.size()) {
        out.branch = FillBranch::too_small;
        out.adjustable = order.back();
        out.rest_us = read[order.back()];
        out.reached = rest <= config.tolerance * device_max_us(c);
        return out;
    }
    out.branch = kept > 0 ? FillBranch::keep_set : FillBranch::program_one;
    out.adjustable = order[kept];
    out.rest_us = rest;
    for (std::size_t k = kept + 1; k < order.size(); ++k) reset_counted(c, devices[order[k]], cost);
    if (is_nothing(c, rest)) {
        reset_counted(c, devices[out.adjustable], cost);
    } else {
        out.reached = approach(c, config, rest, devices[out.adjustable], cost).reached;
    }
    return out;
}

FillOutcome equal_fill(const PulseContext& c, const VerifyConfig& config, double target_us,
                       std::span<PulsedDevice> devices, ProgrammingCost& cost) {
    assert(!devices.empty());
    FillOutcome out{.branch = FillBranch::program_one, .adjustable = devices.size() - 1};
    const double share = target_us / static_cast<double>(devices.size());
    out.rest_us = share;
    for (auto& d : devices) out.reached &= program_and_verify(c, config, share, d, cost).reached;
    if (is_nothing(c, share)) out.branch = FillBranch::reset;
    return out;
}

PulsedArray fill_array(const PulseContext& context, const FillJob& job, const Exec& exec,
                       ProgrammingCost& cost) {
    const auto target_us = job.target_us;
    check_targets(context.device, target_us);
    const std::size_t cells = target_us.rows() * target_us.cols();
    const auto depth = static_cast<std::size_t>(context.device.devices_per_polarity);
    PulsedArray a{.ids = job.ids,
                  .rows = target_us.rows(),
                  .cols = target_us.cols(),
                  .depth = depth,
                  .devices = std::vector<PulsedDevice>(cells * depth),
                  .pulsed_seconds = std::vector<double>(cells * depth, 0.0),
                  .outcomes = std::vector<FillOutcome>(cells)};
    std::vector<ProgrammingCost> costs(a.rows);
    parallel_for(exec, a.rows, [&](std::size_t r) {
        for (std::size_t c = 0; c < a.cols; ++c) fill_cell(context, job, r * a.cols + c, a, costs[r]);
    });
    for (const auto& part : costs) add_cost(part, cost);
    return a;
}

PolarityNow polarity_at(const PulseContext& context, const PulsedArray& a, std::size_t cell, double seconds) {
    PolarityNow now;
    double power = 0.0;
    for (std::size_t i = cell * a.depth; i < (cell + 1) * a.depth; ++i) {
        const auto& d = a.devices[i];
        const double g = conductance_after(context, d, seconds - a.pulsed_seconds[i]);
        const double noise = g * d.read_noise;
        now.g_us += g;
        power += noise * noise;
    }
    now.noise_us = std::sqrt(power);
    return now;
}

DeviceState array_state(const PulseContext& context, const PulsedArray& a, double end_seconds) {
    const double t_0 = context.device.t_0_seconds;
    const double when = end_seconds + t_0;
    const double log_ratio = std::log1p(kDaySeconds / t_0);
    DeviceState state{a.ids, {a.rows, a.cols}, {a.rows, a.cols}, {a.rows, a.cols}};
    for (std::size_t cell = 0; cell < a.rows * a.cols; ++cell) {
        const auto now = polarity_at(context, a, cell, when);
        if (now.g_us <= 0.0) continue;
        const double later = polarity_at(context, a, cell, when + kDaySeconds).g_us;
        state.g_us.values()[cell] = static_cast<float>(now.g_us);
        state.nu.values()[cell] = static_cast<float>(std::log(now.g_us / later) / log_ratio);
        state.read_noise.values()[cell] = static_cast<float>(now.noise_us / now.g_us);
    }
    return state;
}

}  // namespace imka

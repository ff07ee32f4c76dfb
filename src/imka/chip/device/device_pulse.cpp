#include "imka/chip/device/device_pulse.hpp"

#include <algorithm>
#include <cmath>

#include "imka/base/random.hpp"

namespace imka {
namespace {

constexpr unsigned kDeviceBits = 36;  // bits of a device number; higher bits count its pulses or reads

// Two random numbers per event of a device.
double event_normal(const PulseContext& c, Stream stream, const PulsedDevice& d, std::uint64_t event,
                    std::uint64_t which) {
    return normal(c.seed, stream, 2 * ((event << kDeviceBits) | d.index) + which);
}

// 1 if the device holds enough glass to drift as the curves say, 0 at SET.
double glass(const PulseContext& c, const PulsedDevice& d, double g_us) {
    return std::clamp((1.0 - g_us / d.set_us) / c.pulse.glass_full, 0.0, 1.0);
}

// After a pulse that leaves the device at g_us under mean drift: draws its actual drift and settled
// conductance.
void relax(const PulseContext& c, double g_us, PulsedDevice& d) {
    const auto& p = c.pulse;
    const double u = g_us / p.drift_g_max_us;
    const double fresh = event_normal(c, Stream::chip_pulse, d, d.pulses, 1);
    const double z = std::sqrt(p.device_share) * d.drift_z + std::sqrt(1.0 - p.device_share) * fresh;
    const double share = glass(c, d, g_us);
    const double mean = share * evaluate(p.drift_mean, u);
    const double nu = std::abs(mean + share * std::max(0.0, evaluate(p.drift_sd, u)) * z);
    d.nu = static_cast<float>(nu);
    d.settling = static_cast<float>(p.settling + nu - mean);
    d.g_us = static_cast<float>(g_us * std::pow(c.device.t_0_seconds / p.t_verify_seconds, mean - nu));
    d.read_noise = static_cast<float>(std::max(0.0, evaluate(p.read_noise, u)));
}

double cycle_factor(const PulseContext& c, const PulsedDevice& d) {
    return std::max(0.0, 1.0 + c.pulse.cycle_sd * event_normal(c, Stream::chip_pulse, d, d.pulses, 0));
}

// Same draw as in the statistical model, so that a chip has the same stuck devices.
void draw_stuck(const PulseContext& c, PulsedDevice& d) {
    const auto& m = c.device;
    if (m.stuck_at_reset_probability + m.stuck_at_max_probability == 0.0) return;
    const double draw = uniform(c.seed, Stream::chip_stuck, d.index);
    if (draw < m.stuck_at_reset_probability) {
        d.stuck = true;
        d.g_us = 0.0F;
    } else if (draw < m.stuck_at_reset_probability + m.stuck_at_max_probability) {
        d.stuck = true;
        d.g_us = static_cast<float>(m.g_max_us / m.devices_per_polarity);
    }
    if (d.stuck) d.set_us = d.g_us;
}

// Relative noise of the mean of n reads spread over t_verify, for Q_s = 1. After time t, 1/f noise has the
// power ln(t / (2 t_read)). The part slower than the pause between two reads is common to all reads; the
// remainder averages out.
double verify_noise(const PulseContext& c) {
    const double t_read = c.device.t_read_seconds;
    const double n = c.pulse.verify_reads;
    const double power = std::max(0.0, std::log((c.pulse.t_verify_seconds + t_read) / (2.0 * t_read)));
    const double common = std::min(power, std::log(n));
    return std::sqrt(common + (power - common) / n);
}

double seconds_of(const PulseModel& model, double seconds) {
    return seconds / model.parallel_devices;
}

}  // namespace

PulsedDevice make_device(const PulseContext& c, std::uint64_t index) {
    const auto& p = c.pulse;
    PulsedDevice d{.index = index};
    const double set = p.set_mean_us + p.set_sd_us * normal(c.seed, Stream::chip_response, 4 * index);
    const double half = p.half_mean_ua + p.half_sd_ua * normal(c.seed, Stream::chip_response, 4 * index + 1);
    d.set_us = static_cast<float>(std::max(set, p.reset_us));
    d.half_ua = static_cast<float>(half);
    d.drift_z = normal(c.seed, Stream::chip_response, 4 * index + 2);
    d.g_us = static_cast<float>(p.reset_us);
    d.current_ua = static_cast<float>(p.reset_ua);
    draw_stuck(c, d);
    return d;
}

void set_device(const PulseContext& c, PulsedDevice& d) {
    ++d.pulses;
    if (d.stuck) return;
    d.at_set = true;
    d.current_ua = 0.0F;
    relax(c, d.set_us * cycle_factor(c, d), d);
}

void pulse_device(const PulseContext& c, PulsedDevice& d, double current_ua) {
    ++d.pulses;
    if (d.stuck) return;
    const auto& p = c.pulse;
    const double open = 1.0 / (1.0 + std::exp((current_ua - d.half_ua) / p.width_ua));
    d.at_set = false;
    d.current_ua = static_cast<float>(current_ua);
    relax(c, (p.reset_us + (d.set_us - p.reset_us) * open) * cycle_factor(c, d), d);
}

double conductance_after(const PulseContext& c, const PulsedDevice& d, double seconds) {
    if (d.stuck) return d.g_us;
    const double t_0 = c.device.t_0_seconds;
    return d.g_us * std::pow(seconds / t_0, seconds < t_0 ? -d.settling : -d.nu);
}

double settling_factor(const PulseContext& c) {
    return std::pow(c.device.t_0_seconds / c.pulse.t_verify_seconds, -c.pulse.settling);
}

double verify_device(const PulseContext& c, PulsedDevice& d) {
    const auto& p = c.pulse;
    const double slow = verify_noise(c) * d.read_noise * event_normal(c, Stream::chip_verify, d, d.reads, 1);
    const double g = conductance_after(c, d, p.t_verify_seconds) * std::max(0.0, 1.0 + slow);
    double sum = 0.0;
    for (int k = 0; k < p.verify_reads; ++k) {
        const double noise = p.conversion_noise_us * event_normal(c, Stream::chip_verify, d, d.reads, 0);
        const double reading = std::max(0.0, g + noise);
        sum += p.count_us > 0.0 ? std::nearbyint(reading / p.count_us) * p.count_us : reading;
        ++d.reads;
    }
    return sum / p.verify_reads * settling_factor(c);
}

void add_set(const PulseModel& m, ProgrammingCost& cost) {
    ++cost.set_pulses;
    cost.seconds += seconds_of(m, m.set_pulse_seconds);
    cost.joules += m.pulse_volts * m.set_ua * 1e-6 * m.set_pulse_seconds;
}

void add_pulse(const PulseModel& m, double current_ua, ProgrammingCost& cost) {
    ++cost.pulses;
    cost.seconds += seconds_of(m, m.reset_pulse_seconds);
    cost.joules += m.pulse_volts * current_ua * 1e-6 * m.reset_pulse_seconds;
}

void add_verify(const PulseContext& c, ProgrammingCost& cost) {
    const auto reads = c.pulse.verify_reads;
    cost.reads += static_cast<std::uint64_t>(reads);
    cost.seconds += seconds_of(c.pulse, c.pulse.t_verify_seconds + reads * c.device.t_read_seconds);
    cost.joules += reads * c.pulse.read_joules;
}

void add_products(const PulseModel& m, std::uint64_t count, ProgrammingCost& cost) {
    cost.products += count;
    cost.seconds += static_cast<double>(count) * m.product_seconds;
    cost.joules += static_cast<double>(count) * m.product_joules;
}

void add_cost(const ProgrammingCost& part, ProgrammingCost& cost) {
    cost.set_pulses += part.set_pulses;
    cost.pulses += part.pulses;
    cost.reads += part.reads;
    cost.products += part.products;
    cost.seconds += part.seconds;
    cost.joules += part.joules;
}

}  // namespace imka

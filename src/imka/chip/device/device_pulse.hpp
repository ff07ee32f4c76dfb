// Response of one phase-change device to programming pulses. A pulse melts a part of the device, which
// freezes as a glass and blocks the current; a higher pulse makes more glass. Glass relaxes: conductance
// falls with time, differently after every pulse, so a read right after the pulse only roughly predicts
// the settled value.
#pragma once

#include <cstdint>

#include "imka/chip/device/device.hpp"

namespace imka {

// Conductances are settled: the value t_0 after the pulse under mean drift. Defaults: a device without
// spread, noise or drift.
struct PulseModel {
    // After a pulse of amplitude I (every pulse starts from SET):
    //   G(I) = (G_reset + (G_SET - G_reset) / (1 + exp((I - I_half) / width))) (1 + cycle_sd N)
    double set_mean_us = 19.0;    // of G_SET over devices; > 0
    double set_sd_us = 0.0;       // >= 0
    double reset_us = 0.1;        // G_reset; >= 0
    double half_mean_ua = 180.0;  // of I_half over devices; > 0
    double half_sd_ua = 0.0;      // >= 0
    double width_ua = 14.0;       // > 0
    double cycle_sd = 0.0;        // from pulse to pulse, relative; >= 0
    double reset_ua = 500.0;      // amplitude of a full RESET; > 0

    // Drift of one device: nu = |mean + sd z| with the curves at u = G / drift_g_max. The share
    // device_share of the variance of z is fixed for the device, the remainder is new with every pulse. If
    // the share of glass, 1 - G / G_SET, is below glass_full, mean and sd fall to 0 in proportion: SET has
    // no glass.
    double drift_g_max_us = 10.35;  // > 0
    Curve drift_mean;
    Curve drift_sd;
    double device_share = 0.5;  // in [0, 1]
    double glass_full = 0.1;    // in (0, 1]

    // Between pulse and t_0 the mean loss has the exponent `settling` in every state. A device deviates from
    // it by its nu minus the mean nu, which causes most of the programming error:
    //   g(t_0) = G (t_0 / t_verify)^(mean - nu)
    double settling = 0.0;           // >= 0
    double t_verify_seconds = 1e-4;  // from the pulse to the read that verifies it; > 0

    // A verifying read averages verify_reads reads spread over t_verify. Its noise is the 1/f noise
    // that does not average out, plus the noise and rounding of the conversions.
    Curve read_noise;                  // Q_s at u = G / drift_g_max
    double count_us = 0.0;             // step of a conversion, uS; 0: none
    double conversion_noise_us = 0.0;  // standard deviation of one conversion; >= 0
    int verify_reads = 1;              // 1 to 1000

    // Cost of programming.
    double pulse_volts = 1.5;             // across device and selector during a pulse; > 0
    double reset_pulse_seconds = 100e-9;  // > 0
    double set_pulse_seconds = 1e-6;      // > 0
    double set_ua = 100.0;                // amplitude of SET; > 0
    double read_joules = 0.0;             // one conversion of one column; >= 0
    double product_joules = 0.0;          // one product of a core; >= 0
    double product_seconds = 1e-6;        // > 0
    int parallel_devices = 1;             // programmed at once in a core; >= 1
};
// Error{bad_config} naming the constant and its range, from the field list (spec/chip_fields.cpp).
void validate(const PulseModel& model);

// The models that a pulse needs, and the seed of the random numbers.
struct PulseContext {
    const DeviceModel& device;  // t_0, t_read, probability of being stuck
    const PulseModel& pulse;
    std::uint64_t seed = 0;
};

// One device. The counts of pulses and reads identify the noise of each pulse and read.
struct PulsedDevice {
    std::uint64_t index = 0;  // below 2^36
    float set_us = 0.0F;      // conductance at SET
    float half_ua = 0.0F;
    float drift_z = 0.0F;  // fixed part of the spread of nu
    bool stuck = false;
    bool at_set = false;       // after SET, no partial RESET since
    float current_ua = 0.0F;   // amplitude of the last pulse
    float g_us = 0.0F;         // conductance t_0 after the last pulse
    float nu = 0.0F;           // exponent after t_0
    float settling = 0.0F;     // exponent before
    float read_noise = 0.0F;   // Q_s
    std::uint32_t pulses = 0;  // below 2^26
    std::uint32_t reads = 0;
};

// Device `index` = polarity * devices_per_polarity + k as delivered: RESET, or stuck.
PulsedDevice make_device(const PulseContext& context, std::uint64_t index);

// A stuck device accepts pulses but does not change.
void set_device(const PulseContext& context, PulsedDevice& device);
void pulse_device(const PulseContext& context, PulsedDevice& device, double current_ua);
inline void reset_device(const PulseContext& context, PulsedDevice& device) {
    pulse_device(context, device, context.pulse.reset_ua);
}

// Conductance without noise at `seconds` > 0 after the last pulse.
double conductance_after(const PulseContext& context, const PulsedDevice& device, double seconds);

// Settled conductance in uS, estimated from a read t_verify after the last pulse: the reading times the mean
// loss until t_0. Counts the reads.
double verify_device(const PulseContext& context, PulsedDevice& device);

// (t_0 / t_verify)^-settling
double settling_factor(const PulseContext& context);

// Cost so far. Seconds of one core; joules without idle power.
struct ProgrammingCost {
    std::uint64_t set_pulses = 0;
    std::uint64_t pulses = 0;    // partial and full RESET
    std::uint64_t reads = 0;     // conversions of single devices
    std::uint64_t products = 0;  // matrix-vector products of the core
    double seconds = 0.0;
    double joules = 0.0;
};
void add_set(const PulseModel& model, ProgrammingCost& cost);
void add_pulse(const PulseModel& model, double current_ua, ProgrammingCost& cost);
// Adds the wait of t_verify and the reads after it.
void add_verify(const PulseContext& context, ProgrammingCost& cost);
void add_products(const PulseModel& model, std::uint64_t count, ProgrammingCost& cost);
void add_cost(const ProgrammingCost& part, ProgrammingCost& cost);

}  // namespace imka

// How one phase-change device answers to programming pulses. A pulse melts a part of the device; what freezes
// as a glass blocks the current, the more of it the higher the pulse. Glass relaxes: conductance falls with
// time, differently after every pulse, so a read right after the pulse says only roughly where it will
// settle.
#pragma once

#include <cstdint>

#include "imka/chip/device/curve.hpp"
#include "imka/chip/device/device.hpp"

namespace imka {

// Conductances are settled ones: what the device would have t_0 after the pulse if it drifted like the mean.
// The defaults are a device without spread, noise or drift.
struct PulseModel {
    // After a pulse of amplitude I, each starting from SET:
    //   G(I) = (G_reset + (G_SET - G_reset) / (1 + exp((I - I_half) / width))) (1 + cycle_sd N)
    double set_mean_us = 19.0;    // of G_SET over devices; > 0
    double set_sd_us = 0.0;       // >= 0
    double reset_us = 0.1;        // G_reset; >= 0
    double half_mean_ua = 180.0;  // of I_half over devices; > 0
    double half_sd_ua = 0.0;      // >= 0
    double width_ua = 14.0;       // > 0
    double cycle_sd = 0.0;        // from pulse to pulse, relative; >= 0
    double reset_ua = 500.0;      // amplitude of a full RESET; > 0

    // Drift of one device. nu = |mean + sd z| with the curves at u = G / drift_g_max; the share device_share
    // of the variance of z belongs to the device, the rest is new with every pulse. Where less than
    // glass_full of the device is glass, 1 - G / G_SET, mean and sd go to 0 in proportion: SET has no glass.
    double drift_g_max_us = 10.35;  // > 0
    Curve drift_mean;
    Curve drift_sd;
    double device_share = 0.5;  // from 0 to 1
    double glass_full = 0.1;    // > 0, at most 1

    // Between pulse and t_0 the mean loss is that of the exponent settling for every state; a device deviates
    // from it by as much as its nu from the mean nu, which is where most of the programming error comes from:
    //   g(t_0) = G (t_0 / t_verify)^(mean - nu)
    double settling = 0.0;           // >= 0
    double t_verify_seconds = 1e-4;  // from the pulse to the read that verifies it; > 0

    // The read is the mean of verify_reads, spread over t_verify: 1/f noise as far as it does not average
    // out, and what every conversion adds.
    Curve read_noise;                  // Q_s at u = G / drift_g_max
    double count_us = 0.0;             // step of a conversion, uS; 0: none
    double conversion_noise_us = 0.0;  // standard deviation of one conversion; >= 0
    int verify_reads = 1;              // 1 to 1000

    // What programming costs.
    double pulse_volts = 1.5;             // across device and selector during a pulse; > 0
    double reset_pulse_seconds = 100e-9;  // > 0
    double set_pulse_seconds = 1e-6;      // > 0
    double set_ua = 100.0;                // amplitude of SET; > 0
    double read_joules = 0.0;             // one conversion of one column; >= 0
    double product_joules = 0.0;          // one product of a core; >= 0
    double product_seconds = 1e-6;        // > 0
    int parallel_devices = 1;             // programmed at once in a core; >= 1
};
// Error{bad_config} naming the constant and its range, which the field list has (spec/chip_fields.cpp).
void validate(const PulseModel& model);

// The models a pulse needs and the number of the device: together they name every random number.
struct PulseContext {
    const DeviceModel& device;  // t_0, t_read, probability of being stuck
    const PulseModel& pulse;
    std::uint64_t seed = 0;
};

// One device. Numbers of pulses and reads name their noise.
struct PulsedDevice {
    std::uint64_t index = 0;  // below 2^36
    float set_us = 0.0F;      // what SET gives this device
    float half_ua = 0.0F;
    float drift_z = 0.0F;  // its own part of the spread of nu
    bool stuck = false;
    bool at_set = false;       // after SET, no partial RESET since
    float current_ua = 0.0F;   // amplitude of the last pulse
    float g_us = 0.0F;         // conductance t_0 after the last pulse
    float nu = 0.0F;           // exponent from t_0 on
    float settling = 0.0F;     // exponent before
    float read_noise = 0.0F;   // Q_s
    std::uint32_t pulses = 0;  // below 2^26
    std::uint32_t reads = 0;
};

// The device `index` = polarity * devices_per_polarity + k as it leaves the factory: RESET, or stuck.
PulsedDevice make_device(const PulseContext& context, std::uint64_t index);

// A stuck device takes pulses and does not change.
void set_device(const PulseContext& context, PulsedDevice& device);
void pulse_device(const PulseContext& context, PulsedDevice& device, double current_ua);
inline void reset_device(const PulseContext& context, PulsedDevice& device) {
    pulse_device(context, device, context.pulse.reset_ua);
}

// Conductance without noise, seconds after the last pulse; > 0.
double conductance_after(const PulseContext& context, const PulsedDevice& device, double seconds);

// What the read t_verify after the last pulse says about the settled conductance, uS: the reading times the
// mean loss until t_0. Counts the reads.
double verify_device(const PulseContext& context, PulsedDevice& device);

// (t_0 / t_verify)^-settling
double settling_factor(const PulseContext& context);

// What was spent. Seconds are those of one core; joules without the idle power.
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
// Waiting for t_verify and the reads after it.
void add_verify(const PulseContext& context, ProgrammingCost& cost);
void add_products(const PulseModel& model, std::uint64_t count, ProgrammingCost& cost);
void add(const ProgrammingCost& part, ProgrammingCost& cost);

}  // namespace imka

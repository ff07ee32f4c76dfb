// What a device model is: how far programming misses, how conductance drifts, how reads fluctuate. Everything
// holds for one polarity of a cell: one device, or several that are read together and that the model
// describes by their sum.
#pragma once

#include <limits>
#include <string>

#include "imka/chip/device/curve.hpp"

namespace imka {

// Conductances in microsiemens (uS), times in seconds. The defaults are a perfect device.
struct DeviceModel {
    double g_max_us = 20.7;        // largest target of one polarity; > 0
    int devices_per_polarity = 1;  // 1 to 16
    double t_0_seconds = 1.0;      // from programming to the reads that the model was fitted to; > 0
    double t_read_seconds = 1e-6;  // duration of a read; > 0

    // Standard deviation of g - g_target, uS, for devices of programming_reference_g_max_us; those with
    // another g_max_us have it scaled by the ratio of the two.
    Curve programming_error_us;
    double programming_reference_g_max_us = 20.7;  // > 0
    double programming_scale = 1.0;                // multiplies the error, for better programming; >= 0
    double zero_threshold_us = 0.0;  // a target below this becomes exactly 0, without error; >= 0

    // Exponent nu of g(t) = g (t / t_0)^-nu: |mean + sd N(0,1)|, both as functions of the target.
    Curve drift_mean;
    Curve drift_sd;
    double drift_scale = 1.0;  // multiplies nu; >= 0

    // Q_s of the 1/f read noise: sd = g Q_s sqrt(ln((t + t_read) / (2 t_read))), as a function of g.
    Curve read_noise;
    double read_noise_scale = 1.0;  // >= 0
    // Of its two parts (read_noise.hpp), to see what each does; >= 0.
    double read_noise_frozen_scale = 1.0;
    double read_noise_fresh_scale = 1.0;

    // A device that came out low at t_0 has drifted more and goes on doing so: correlation of the programming
    // error with -nu. 0: independent; 1: one random number for both.
    double programming_drift_correlation = 0.0;

    // Probability that one device is stuck. The others of its polarity make up for it as far as they reach.
    double stuck_at_reset_probability = 0.0;  // at 0
    double stuck_at_max_probability = 0.0;    // at g_max_us / devices_per_polarity; the two sum to <= 1

    // What a programmed polarity can hold, whatever the error drawn.
    double g_floor_us = 0.0;                                        // >= 0
    double g_ceiling_us = std::numeric_limits<double>::infinity();  // > g_floor_us
};

// Error{bad_config} naming the constant and its range, which the field list has (spec/chip_fields.cpp).
void validate(const DeviceModel& model);

// The curves with their scales applied, at a conductance in uS; never negative.
double programming_sigma_us(const DeviceModel& model, double target_us);
double read_noise_q(const DeviceModel& model, double g_us);

}  // namespace imka

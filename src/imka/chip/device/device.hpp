// Device model: programming error, drift and read noise. All values describe one polarity of a cell: one
// device, or the sum of several devices that are read together.
#pragma once

#include <limits>
#include <string>

#include "imka/chip/device/curve.hpp"

namespace imka {

// Conductances in microsiemens (uS), times in seconds. Defaults: a perfect device.
struct DeviceModel {
    double g_max_us = 20.7;        // largest target of one polarity; > 0
    int devices_per_polarity = 1;  // 1 to 16
    double t_0_seconds = 1.0;      // from programming to the reads that the model was fitted to; > 0
    double t_read_seconds = 1e-6;  // duration of a read; > 0

    // Standard deviation of g - g_target, uS, for devices with programming_reference_g_max_us; scaled in
    // proportion for another g_max_us.
    Curve programming_error_us;
    double programming_reference_g_max_us = 20.7;  // > 0
    double programming_scale = 1.0;                // multiplies the error, to model better programming; >= 0
    double zero_threshold_us = 0.0;  // a target below this becomes exactly 0, without error; >= 0

    // Exponent nu of g(t) = g (t / t_0)^-nu: |mean + sd N(0,1)|, both as functions of the target.
    Curve drift_mean;
    Curve drift_sd;
    double drift_scale = 1.0;  // multiplies nu; >= 0

    // Q_s of the 1/f read noise: sd = g Q_s sqrt(ln((t + t_read) / (2 t_read))), as a function of g.
    Curve read_noise;
    double read_noise_scale = 1.0;  // >= 0
    // Scales of its two parts (read_noise.hpp); >= 0.
    double read_noise_frozen_scale = 1.0;
    double read_noise_fresh_scale = 1.0;

    // Correlation of the programming error with -nu: a device that is low at t_0 has drifted more and
    // keeps drifting more. 0: independent; 1: one random number for both.
    double programming_drift_correlation = 0.0;

    // Probability that one device is stuck. The others of its polarity compensate as far as they can.
    double stuck_at_reset_probability = 0.0;  // at 0
    double stuck_at_max_probability = 0.0;    // at g_max_us / devices_per_polarity; the two sum to <= 1

    // Limits of a programmed polarity, including its error.
    double g_floor_us = 0.0;                                        // >= 0
    double g_ceiling_us = std::numeric_limits<double>::infinity();  // > g_floor_us
};

// Error{bad_config} naming the constant and its range, from the field list (spec/chip_fields.cpp).
void validate(const DeviceModel& model);

// Curves with their scales applied, at a conductance in uS; never negative.
double programming_sigma_us(const DeviceModel& model, double target_us);
double read_noise_q(const DeviceModel& model, double g_us);

}  // namespace imka

// Device model: programming error, drift and read noise. All values describe one polarity of a cell: one
// device, or the sum of several devices that are read together.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

// A device constant as a piecewise function of the relative conductance u = g / g_max. All published
// device formulas (programming error, drift exponent, read noise) are such curves, so a device model is
// data, not code.

enum class CurveForm {
    polynomial,  // c0 + c1 a + c2 a² + ...
    logarithm,   // c0 ln a + c1
    power,       // c0 a^c1
};
template <>
struct EnumNames<CurveForm> {
    static constexpr std::string_view what = "curve form";
    static constexpr std::string_view values[] = {"polynomial", "logarithm", "power"};
};

// One piece, in terms of the argument a of its curve. The value is clamped to [min, max].
struct CurvePiece {
    CurveForm form = CurveForm::polynomial;
    double below = std::numeric_limits<double>::infinity();  // valid for a < below
    std::vector<double> coefficients;
    double min = -std::numeric_limits<double>::infinity();
    double max = std::numeric_limits<double>::infinity();
};

// f(u) = value_scale * piece(argument_at_g_max * u). The two scales convert constants published in other
// units.
struct Curve {
    double argument_at_g_max = 1.0;  // argument at u = 1; > 0
    double value_scale = 1.0;        // > 0
    std::vector<CurvePiece> pieces;  // by increasing `below`, the last unbounded; empty: 0 everywhere
};

// c0 + c1 a + c2 a² + ...
double polynomial(std::span<const double> coefficients, double a);

// Value at u >= 0, in double. For u > 1 the last piece is extended.
double evaluate(const Curve& curve, double u);

// Error{bad_config} that starts with `name`: pieces out of order, wrong number of coefficients, values
// that are not finite (coefficients, or the curve between 0 and 1), values outside [min, max], a logarithm or
// decreasing power that is unclamped at u = 0.
void validate(const Curve& curve, std::string_view name,
              double min = -std::numeric_limits<double>::infinity(),
              double max = std::numeric_limits<double>::infinity());

// Conductances in microsiemens (uS), times in seconds. Defaults: a perfect device.
struct DeviceModel {
    double g_max_us = 20.7;        // largest target of one polarity; > 0
    int devices_per_polarity = 1;  // 1 to 16
    double t_0_seconds = 1.0;      // from programming to the reads that the model was fitted to; > 0
    double t_read_seconds = 1e-6;  // duration of a read; > 0

    // Standard deviation of g - g_target, uS, if g_max_us is programming_reference_g_max_us; scaled in
    // proportion to g_max_us otherwise.
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
    // Scales of the two parts of the read noise (ReadNoiseParts); >= 0.
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

// Drift of a programmed conductance: g(t) = g (t / t_0)^-nu with t = t_0 + time since programming. g is
// the conductance at t = t_0.
//
// nu = |mean + sd z| of a device programmed to target_us; z is its standard normal number.
double drift_exponent(const DeviceModel& model, double target_us, double z);

// (t / t_0)^-nu with t = t_0 + seconds, seconds >= 0.
double drift_factor(double nu, double seconds, double t_0_seconds);

// 1/f noise of reads. Its power grows with the logarithm of the elapsed time. It is split at the time
// between two reads: slower noise is frozen, faster noise is new in every read.

// When a conductance is read.
struct ReadTime {
    double seconds = 0.0;           // since the end of programming; >= 0
    double spacing_seconds = 1e-3;  // between two matrix-vector products; >= 0
};
void validate(const ReadTime& time);

// Standard deviations relative to g for Q_s = 1. The total, sqrt(ln((t_0 + seconds + t_read) / (2
// t_read))), is the root of the sum of squares of the parts. The fresh part is sqrt(ln((spacing + t_read)
// / (2 t_read))), or 0 for shorter spacings. Each part is then multiplied by its scale in the model.
struct ReadNoiseParts {
    double frozen = 0.0;
    double fresh = 0.0;
};
ReadNoiseParts read_noise_parts(const DeviceModel& model, const ReadTime& time);

// Programmed devices and their change with time. Programming is statistical: the outcome is drawn from the
// device model, without pulses. Every draw is a function of (seed, device), so any part of an array can be
// computed alone.

// Identifies devices, and so determines their random numbers. Device (r, c) of an array has the index first +
// r * stride + c; arrays of one seed must not overlap.
struct DeviceIds {
    std::uint64_t seed = 0;
    std::uint64_t first = 0;
    std::uint64_t stride = 0;  // >= columns of the array
};
inline std::uint64_t device_index(const DeviceIds& ids, std::size_t row, std::size_t col) {
    return ids.first + row * ids.stride + col;
}

// One polarity of every cell of an array, after programming.
struct DeviceState {
    DeviceIds ids;
    Matrix<float> g_us;        // conductance t_0 after programming, uS
    Matrix<float> nu;          // drift exponent
    Matrix<float> read_noise;  // Q_s
};

// Error{bad_config} for targets outside [0, g_max], naming the first.
void check_targets(const DeviceModel& model, MatrixView<const float> target_us);

// g = clamp(target + sigma(target) N(0,1), g_floor, g_ceiling), exact for targets below the zero
// threshold; nu from the target; Q_s from g. Stuck devices limit the target to the range of the other
// devices of their polarity. Error{bad_config} for targets outside [0, g_max], naming the first.
DeviceState program_devices(const DeviceModel& model, MatrixView<const float> target_us, DeviceIds ids);

// Conductances at a time: values with drift and frozen noise, and standard deviations of the noise that is
// new in every product.
struct Conductances {
    Matrix<float> g_us;
    Matrix<float> fresh_sd_us;
};
Conductances conductances_at(const DeviceModel& model, const DeviceState& state, const ReadTime& time);

}  // namespace imka

// Programming by products: the core multiplies random inputs, and devices are pulsed if the error of the
// products shows that their weight is wrong. No device is read alone, so errors common to a column, mainly
// drift, are left to the column's scale and offset.
#pragma once

#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/program/programming_array.hpp"
#include "imka/chip/region.hpp"

namespace imka {

struct GradientConfig {
    std::size_t inputs = 1024;  // products per iteration; >= 2
    // Standard deviation of the random inputs, in input ranges; > 0. Reduced if a phase of some column
    // would saturate.
    double input_deviation = 40.0 / 127.0;
    int iterations = 50;        // at most; >= 1
    double target_error = 0.0;  // stop when the measured relative error is at or below this; >= 0
    double rate = 0.8;          // share of an estimated error that a pulse removes; > 0
    // Errors above this share of a device's largest target are corrected. Every pulse redraws the drift of
    // its device: without a dead band, pulses would spoil good devices as fast as they repair bad ones.
    double dead_band = 0.03;  // >= 0
    // Estimates are noisy: the dead band is widened by this many root-mean-square weight errors of the
    // column, as measured by the products, divided by the root of the number of averaged estimates.
    double caution = 2.0;             // >= 0
    int memory = 16;                  // iterations averaged by the estimate of an untouched device; >= 1
    double start_seconds = 300.0;     // from the end of filling to the first iteration; > 0
    double iteration_seconds = 10.0;  // > 0
    double spacing_seconds = 1e-6;    // between two products; >= 0
};
void validate(const GradientConfig& config);

struct GradientStep {
    double error = 0.0;        // relative error of the measured products after scale and offset
    std::uint64_t pulses = 0;  // sent in response
};

// Input of the loop, which changes the arrays.
struct GradientJob {
    const PulseContext& context;
    const ProgrammedRegion& region;  // converters and numbers; its devices are not used
    const GradientConfig& config;
    const VerifyConfig& verify;           // only its gain
    const Matrix<float>& plus_target_us;  // inputs x outputs
    const Matrix<float>& minus_target_us;
    PulsedArray& plus;
    PulsedArray& minus;
};

struct GradientOutcome {
    std::vector<GradientStep> steps;
    double end_seconds = 0.0;  // on the clock of pulsed_seconds
};

// In every iteration, at one time of the clock:
//   y = measured products of B inputs x
//   t = exact products for the targets plus the mean loss until t_0 that recently pulsed devices still have
//   scale and offset of each column by least squares
//   e = scale y + offset - t,   d_ij = sum_b x_i e_j / sum_b x_i²   (error of weight ij, uS)
//   a = mean of d over the iterations since the last pulse, at most `memory` of them
//   w = |e_j| / |x|, the root-mean-square error of the weights of column j
//   if |a| > dead band + caution w / sqrt(estimates in a): one pulse on the adjustable device of the polarity
//   that holds the weight, I += rate gain a (with the sign of the polarity)
// Ends after `iterations`, at target_error, or when no device needs a pulse. Same bits for any thread count.
GradientOutcome tune_by_products(const GradientJob& job, const Exec& exec, ProgrammingCost& cost);

}  // namespace imka

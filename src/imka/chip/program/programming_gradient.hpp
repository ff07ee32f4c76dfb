// Programming by products: the core is asked for products of random inputs, and devices are pulsed where the
// error of the products says that their weight is wrong. No device is read alone, so what all weights of a
// column have in common, drift above all, is left to the scale and offset of the column.
#pragma once

#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/program/programming_array.hpp"
#include "imka/chip/region.hpp"

namespace imka {

struct GradientConfig {
    std::size_t inputs = 1024;  // products of one iteration; >= 2
    // Of the random inputs, in input ranges; > 0. Less where a phase of some column would saturate.
    double input_deviation = 40.0 / 127.0;
    int iterations = 50;        // at most; >= 1
    double target_error = 0.0;  // stop when the measured relative error is at or below this; >= 0
    double rate = 0.8;          // share of an estimated error that a pulse is to remove; > 0
    // An error is acted on when it exceeds this share of a device's largest target. Every pulse draws the
    // drift of its device anew: without a dead band good devices are spoilt as fast as bad ones are mended.
    double dead_band = 0.03;  // >= 0
    // An estimate is noisy: the dead band is widened by this many root-mean-square weight errors of the
    // column, as the products show them, over the root of the number of estimates averaged.
    double caution = 2.0;          // >= 0
    int memory = 16;               // iterations over which the estimate of an untouched device averages; >= 1
    double start_seconds = 300.0;  // from the end of filling to the first iteration; > 0
    double iteration_seconds = 10.0;  // > 0
    double spacing_seconds = 1e-6;    // between two products; >= 0
};
void validate(const GradientConfig& config);

struct GradientStep {
    double error = 0.0;        // relative, of the measured products after scale and offset
    std::uint64_t pulses = 0;  // given because of it
};

// What the loop works on; the arrays are changed.
struct GradientJob {
    const PulseContext& context;
    const ProgrammedRegion& region;  // converters and numbers; its devices are not looked at
    const GradientConfig& config;
    const VerifyConfig& verify;           // its gain
    const Matrix<float>& plus_target_us;  // inputs x outputs
    const Matrix<float>& minus_target_us;
    PulsedArray& plus;
    PulsedArray& minus;
};

struct GradientOutcome {
    std::vector<GradientStep> steps;
    double end_seconds = 0.0;  // on the clock of pulsed_seconds
};

// In every iteration, all at one time of the clock:
//   y = measured products of B inputs x, t = exact ones for the targets plus what
//   devices pulsed lately will still lose on average until t_0; scale and offset of each column by least
//   squares e = scale y + offset - t,   d_ij = sum_b x_i e_j / sum_b x_i²   (error of weight ij, uS) a = mean
//   of d over the iterations since the last pulse, at most `memory` of them w = |e_j| / |x|, the
//   root-mean-square error of the weights of column j where |a| > dead band + caution w / sqrt(estimates in
//   a): one pulse on the adjustable device of the polarity that holds the weight, I += rate gain a (with the
//   sign of the polarity)
// Ends after `iterations`, at target_error, or when nothing is left to pulse. Same bits for any thread count.
GradientOutcome tune_by_products(const GradientJob& job, const Exec& exec, ProgrammingCost& cost);

}  // namespace imka

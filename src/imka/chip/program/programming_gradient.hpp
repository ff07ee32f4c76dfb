// Programming by products: the core multiplies random inputs, and devices are pulsed if the error of the
// products shows that their weight is wrong. No device is read individually, so errors common to a column,
// mainly drift, are left to the column's scale and offset.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/program/programming_array.hpp"
#include "imka/chip/region.hpp"

namespace imka {

// Products as measured by a core during programming: random inputs, current conductances, their noise,
// converters. Fresh device noise is added to the charge of a phase as a normal number with the variance of
// the sum. Input slices, IR drop and polarity asymmetry are not modelled.

// Inputs `first`, `first` + 1, ... as shares of the input range: normal numbers times `deviation`, rounded
// to converter steps. All cores of a chip get the same inputs.
Matrix<float> tuning_inputs(const ProgrammedRegion& region, double deviation, std::uint64_t first,
                            std::size_t count);

// Conductances during a batch of products; one row per output.
struct Crossbar {
    Matrix<float> plus_us;  // outputs x inputs
    Matrix<float> minus_us;
    Matrix<float> plus_variance;  // variance of the noise that is new in every product, uS²
    Matrix<float> minus_variance;
};
Crossbar crossbar_of(const ProgrammedRegion& region, const ReadTime& time);

// Signed sum of the counts of the four phases (or the counts of the one phase) divided by counts_per_us:
// the measured sum of inputs times conductances, uS. Uses the converters of the region but not its
// devices. Products are numbered from `first`, below 2^32. Same bits for any thread count.
Matrix<float> measure_products(const ProgrammedRegion& region, const Crossbar& crossbar,
                               const Matrix<float>& inputs, std::uint64_t first, const Exec& exec);

// Exact products of inputs and net conductances: the targets. net_us has one row per output.
Matrix<float> exact_currents(const Matrix<float>& inputs, const Matrix<float>& net_us, const Exec& exec);

// Scale and offset of each output by least squares: scale * measured + offset approximates `exact`.
std::vector<AffineColumn> fit_columns(const Matrix<float>& measured, const Matrix<float>& exact);

// |scale * measured + offset - exact| / |exact| over all products.
double relative_error(const Matrix<float>& measured, const Matrix<float>& exact,
                      std::span<const AffineColumn> columns);

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
    const VerifyConfig& verify;   // only its gain
    const Matrix<float>& net_us;  // targets of the weights, outputs x inputs
    PulsedArray& plus;
    PulsedArray& minus;
};

struct GradientOutcome {
    std::vector<GradientStep> steps;
    double end_seconds = 0.0;  // on the clock of pulsed_seconds
};

// In every iteration, at one time of the clock:
//   y = measured products of B inputs x
//   t = exact products for the targets plus the remaining mean loss until t_0 of recently pulsed devices
//   scale and offset of each column by least squares
//   e = scale y + offset - t,   d_ij = sum_b x_i e_j / sum_b x_i²   (error of weight ij, uS)
//   a = mean of d over the iterations since the last pulse, at most `memory` of them
//   w = |e_j| / |x|, the root-mean-square error of the weights of column j
//   if |a| > dead band + caution w / sqrt(estimates in a): one pulse on the adjustable device of the polarity
//   that holds the weight, I += rate gain a (with the sign of the polarity)
// Ends after `iterations`, at target_error, or when no device needs a pulse. Same bits for any thread count.
GradientOutcome tune_by_products(const GradientJob& job, const Exec& exec, ProgrammingCost& cost);

}  // namespace imka

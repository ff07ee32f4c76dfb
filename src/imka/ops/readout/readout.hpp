// Inputs and outputs of an analog array, one row at a time: inputs to steps, charges to counts, counts to
// outputs.
//
// Domain: finite values (quantize_row reports whether its inputs are), spans of equal size, no overlap.
// Accuracy: bit-identical to plain loops (tests/support/readout_reference.hpp) on every instruction set: IEEE
// operations in the written order, none of them fused; a step or an output that rounds to zero is +0 before
// its factor. Cost: one pass over the row, in the widest vectors of the processor, selected at run time.
#pragma once

#include <cstddef>
#include <span>

namespace imka::ops {

// Sums over a row of inputs, in steps: integers, exact in any order. Meaningless if an input is not finite.
struct StepSums {
    bool finite = true;
    double positive = 0.0;  // sum of the steps > 0
    double negative = 0.0;  // sum of the magnitudes of the steps < 0
    double positive_squares = 0.0;
    double negative_squares = 0.0;
};

enum class StepRounding { nearest, truncate };

struct StepScale {
    double range = 1.0;  // > 0
    int levels = 127;    // <= 2^15
    StepRounding rounding = StepRounding::nearest;
};
// steps[i] = clip(x[i] / range, -1, 1) * levels in double, rounded to nearest (ties to even) or towards 0; at
// most 2^20 inputs.
StepSums quantize_row(const StepScale& scale, std::span<const float> x, std::span<float> steps);

enum class CountRounding { none, round, floor };

struct Counter {
    CountRounding rounding = CountRounding::none;
    float most = 0.0F;            // saturation; infinite: none
    float noise_variance = 0.0F;  // counts², of the converter itself
    float weight = 1.0F;          // of these counts in the sum
    float polarity_error = 0.0F;  // counts, standard deviation of the comparator that decides the sign
};

// Inputs of the counters for a row of columns, in counts.
struct ChargeRow {
    std::span<const float> charge;
    std::span<const float> variance;  // of the charge; empty: 0
    std::span<const float> offset;
    std::span<const float> normals;          // standard normals; empty: no noise at all
    std::span<const float> comparator = {};  // standard normals for the sign decision; empty: no error
};

// counts[i] += weight min(max(R(v), 0), most), v = (charge + offset) + sqrt(variance + noise_variance)
// normal, R the rounding. Returns how many saturate at `most`.
std::size_t add_counts(const Counter& counter, const ChargeRow& row, std::span<float> counts);

// Charges of either sign: counts[i] += weight sign(v + polarity_error comparator) min(R(|v|), most), with
// charge times negative_gain[i] and variance times its square where the charge is < 0. An empty negative_gain
// means 1.
std::size_t add_signed_counts(const Counter& counter, const ChargeRow& row,
                              std::span<const float> negative_gain, std::span<float> counts);

// Beyond this multiple of a soft limit, the result is constant.
inline constexpr float kSoftRange = 1e4F;

struct AffineRow {
    std::span<const float> scale;
    std::span<const float> offset;
    std::span<const float> factor;      // of the result
    std::span<const float> limit = {};  // of |scale counts + offset| before rounding; empty: none
    bool soft_limit = false;            // v / sqrt(1 + (v / limit)²) instead of a clip
    // Counts and result in half precision, like scale and offset: the sum is rounded to float and then to
    // half.
    bool half = false;
    float most = 0.0F;   // result clipped to ±most and rounded, ties to even; infinite: neither
    bool floor = false;  // round down instead
};
// out[i] = factor F(scale counts + offset). Returns how many values reach `limit`.
std::size_t affine_row(const AffineRow& affine, std::span<const float> counts, std::span<float> out);

// The nearest IEEE half-precision number, ties to even; infinite on overflow.
double to_half(double x);

}  // namespace imka::ops

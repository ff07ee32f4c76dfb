// The fast simulator of one region, for batches. What does not change between products (programming, drift,
// frozen noise, gains) is folded once into matrices; a batch is then a few matrix products and an epilogue.
// Noise that is fresh in every product is drawn at the output: a Gaussian whose variance is the product of
// the squared inputs and the variances of the devices. It shares no formula in code with the literal
// simulator (chip/literal), against which it is tested.
#pragma once

#include <cstdint>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/region.hpp"
#include "imka/ops/readout/readout.hpp"

namespace imka {

// Which part of the input steps drives a charge.
enum class InputPanel {
    whole,     // steps with their signs
    positive,  // max(steps, 0)
    negative,  // max(-steps, 0)
    split,     // positive, then negative, side by side
};

// The devices of a core, inputs x outputs: mean and variance of a read in uS and uS², and the factor of those
// read backwards.
struct FastPlanes {
    Matrix<float> plus_us;
    Matrix<float> minus_us;
    Matrix<float> plus_variance;  // both empty where nothing is fresh
    Matrix<float> minus_variance;
    Matrix<float> plus_backwards;  // both empty where they are 1
    Matrix<float> minus_backwards;
};

// One charge for each column. Matrices have a row for each output and a column for each input of the panel;
// values are per step, or per pulse where inputs are applied bit by bit.
struct FastCharge {
    InputPanel panel = InputPanel::whole;
    float sign = 1.0F;       // of its counts in the sum
    Matrix<float> counts;    // mean, gain included
    Matrix<float> variance;  // counts²; empty where nothing is fresh
    Matrix<float> weighted;  // counts times their place on the wire; empty without IR drop
    Matrix<float> load;      // share of the wire's resistance; empty without IR drop
};

// A way to compute counts: charges that are converted one by one and added.
struct FastFold {
    std::vector<FastCharge> charges;  // those of one panel follow each other
    bool bit_by_bit = false;          // a charge and a conversion for every bit of the inputs
    bool either_sign = false;
    ops::Counter counter;
    std::vector<float> offset;         // counts
    std::vector<float> negative_gain;  // relative to the positive one; empty where they are equal
};

// Counts per step over the devices of a column.
struct ColumnSpread {
    double mean = 0.0;
    double deviation = 0.0;
};

// When a vector may take the linear fold. Its inputs of one sign sum to D, their squares to E: where weights
// are not arranged after the inputs, a phase has mean D counts with the deviation sqrt(E) deviation. All
// phases must be clear of zero, where the converter clips: mean D - 4 deviation sqrt(E) >= need.
struct LinearMargin {
    double need =
        0.0;  // 4 deviations of the converter's noise and its largest offset, counts; 0: no condition
    std::vector<ColumnSpread> columns;  // those that can be the worst
};

struct FastRegion {
    ProgrammedRegion region;
    FastFold exact;   // every conversion alone
    FastFold linear;  // all phases in one charge; no charges where the converter is not linear
    LinearMargin margin;
    // Where every bit of the inputs is converted alone, its charges share the noise of the devices, which no
    // independent Gaussian can stand for: devices are then drawn one by one, and `exact` is not used.
    bool draws_devices = false;
    FastPlanes devices;        // for that
    std::vector<float> scale;  // affine correction, rounded as the core does
    std::vector<float> shift;
    std::vector<float> factor;  // of a result: compensation and output step
};

// Error{bad_config} for a time that is not valid.
FastRegion prepare(const ProgrammedRegion& region, const ReadTime& time);

// The fold that converts every charge alone; for drawn devices it is made anew for each product.
FastFold exact_fold(const ProgrammedRegion& region, const FastPlanes& planes);

// As literal_products, in distribution: outputs have the same law, from other random numbers. Bits depend on
// the region, the vector, ids.seed and the number of the product alone, not on threads or batches.
// Conversions and saturations are added to exec.trace. Error{bad_data} for inputs that are not finite or rows
// of another length; Error{bad_usage} for numbers of products from 2^32 on.
Matrix<float> fast_products(const FastRegion& region, MatrixView<const float> x, const ProductIds& ids,
                            const Exec& exec);

// The counts before the affine correction, and how many conversions ended at max_count.
struct FastCounts {
    Matrix<float> counts;
    std::uint64_t conversions = 0;
    std::uint64_t saturated = 0;
};
FastCounts fast_counts(const FastRegion& region, MatrixView<const float> x, const ProductIds& ids,
                       const Exec& exec);

}  // namespace imka

// Fast simulator of one region, for batches. Errors that do not change between products (programming,
// drift, frozen noise, gains) are folded into matrices once; a batch is then a few matrix products and an
// epilogue. Noise that is fresh in every product is drawn at the output: a Gaussian whose variance is the
// product of the squared inputs and the variances of the devices. Shares no code for its formulas
// with the literal simulator (simulate/literal.hpp), against which it is tested.
#pragma once

#include <cstdint>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/region.hpp"
#include "imka/ops/readout/readout.hpp"

namespace imka {

// Part of the input steps that drives a charge.
enum class InputPanel {
    whole,     // steps with their signs
    positive,  // max(steps, 0)
    negative,  // max(-steps, 0)
    split,     // positive, then negative, side by side
};

// Devices of a core, inputs x outputs: mean and variance of a read in uS and uS², and the factor for
// devices read backwards.
struct FastPlanes {
    Matrix<float> plus_us;
    Matrix<float> minus_us;
    Matrix<float> plus_variance;  // both empty if nothing is fresh
    Matrix<float> minus_variance;
    Matrix<float> plus_backwards;  // both empty if all are 1
    Matrix<float> minus_backwards;
};

// One charge per column. Matrices have one row per output and one column per input of the panel; values
// are per step, or per pulse if inputs are applied bit by bit.
struct FastCharge {
    InputPanel panel = InputPanel::whole;
    float sign = 1.0F;       // of its counts in the sum
    Matrix<float> counts;    // mean, gain included
    Matrix<float> variance;  // counts²; empty if nothing is fresh
    Matrix<float> weighted;  // counts times their position on the wire; empty without IR drop
    Matrix<float> load;      // share of the wire's resistance; empty without IR drop
};

// A way to compute counts: charges are converted one by one, and the counts are added.
struct FastFold {
    std::vector<FastCharge> charges;  // grouped by panel
    bool bit_by_bit = false;          // one charge and one conversion per bit of the inputs
    bool either_sign = false;
    ops::Counter counter;
    std::vector<float> offset;         // counts
    std::vector<float> negative_gain;  // relative to the positive one; empty if equal
};

// Counts per step over the devices of a column.
struct ColumnSpread {
    double mean = 0.0;
    double deviation = 0.0;
};

// Condition for a vector to use the linear fold. Its inputs of one sign have the sum D and the sum of
// squares E. If weights and inputs are uncorrelated, a phase has the mean `mean` * D and the standard
// deviation `deviation` * sqrt(E), in counts. All phases must be clear of zero, where the converter clips:
// mean D - 4 deviation sqrt(E) >= need.
struct LinearMargin {
    // 4 standard deviations of converter noise plus the largest offset, counts; 0: no condition.
    double need = 0.0;
    std::vector<ColumnSpread> columns;  // only those that can be the worst
};

struct FastRegion {
    ProgrammedRegion region;
    FastFold exact;   // converts every charge separately
    FastFold linear;  // all phases in one charge; no charges if the converter is not linear
    LinearMargin margin;
    // If every bit of the inputs is converted separately, the charges of a product share the noise of the
    // devices, which independent Gaussians cannot represent: devices are then drawn one by one, and `exact`
    // is not used.
    bool draws_devices = false;
    FastPlanes devices;        // used if draws_devices
    std::vector<float> scale;  // affine correction, rounded as the core does
    std::vector<float> shift;
    std::vector<float> factor;  // per result: compensation and output step
    std::vector<float> limit;   // output steps; empty: none
};

// Error{bad_config} if the time is not valid.
FastRegion prepare(const ProgrammedRegion& region, const ReadTime& time);

// The fold that converts every charge separately; recomputed for each product if devices are drawn.
FastFold exact_fold(const ProgrammedRegion& region, const FastPlanes& planes);

// Parts of a product that are shared with simulators on other devices.
ops::StepScale step_scale(const FastRegion& region);
ops::AffineRow affine_row(const FastRegion& region);
std::uint64_t input_slices(const DacConfig& dac);  // 1, or one per bit of the inputs
std::uint64_t conversions_per_product(const FastRegion& region);
// Number of the standard normal of the first column in one conversion of a product; column c adds c.
std::uint64_t first_normal(std::uint64_t product, std::uint64_t conversion, std::uint64_t column);

// Same distribution of outputs as literal_products, with different random numbers. Bits depend only on the
// region, the vector, ids.seed and the number of the product, not on threads or batches. Conversions and
// saturations are added to exec.trace. Error{bad_data} for inputs that are not finite or rows of the wrong
// length; Error{bad_usage} for product numbers of 2^32 or more.
Matrix<float> fast_products(const FastRegion& region, MatrixView<const float> x, const ProductIds& ids,
                            const Exec& exec);

// Adds them to a sum: y += factor * products, tile by tile while the products are in the cache.
struct WeightedRegion {
    const FastRegion& region;
    float factor = 1.0F;
};
void add_fast_products(const WeightedRegion& part, MatrixView<const float> x, const ProductIds& ids,
                       const Exec& exec, MatrixView<float> y);

// Counts before the affine correction, and the number of conversions that ended at max_count.
struct FastCounts {
    Matrix<float> counts;
    std::uint64_t conversions = 0;
    std::uint64_t saturated = 0;
};
FastCounts fast_counts(const FastRegion& region, MatrixView<const float> x, const ProductIds& ids,
                       const Exec& exec);

}  // namespace imka

// Literal simulator of one region: every device, phase and conversion in plain loops, nothing folded or
// approximated. Slow; the reference for tests of faster simulators.
#pragma once

#include <cstdint>

#include "imka/base/matrix.hpp"
#include "imka/chip/region.hpp"

namespace imka {

// Row v of the result: outputs for row v of x, in the units of weights times inputs.
//   steps     s_i = DAC(x_i); one jitter per input lengthens all its pulses in a product
//   devices   g_i = max(0, g_i(time) + sd_i N(0,1)), new for every product
//   phases    four: q = counts_per_us sum_i d(s_i) g_i over the inputs of one sign and devices of
//             one polarity, c = c(+,+) + c(-,-) - c(+,-) - c(-,+), each converted separately;
//             one: the same sum with signs, converted once. IR drop acts on q
//   output    y = compensation * output_step * affine(c)
// Error{bad_data} for inputs that are not finite or rows whose length is not the number of rows of the
// region.
Matrix<float> literal_products(const ProgrammedRegion& region, MatrixView<const float> x,
                               const ReadTime& time, const ProductIds& ids);

// Counts c before the affine correction, and the number of conversions that ended at max_count.
struct LiteralCounts {
    Matrix<double> counts;
    std::uint64_t conversions = 0;
    std::uint64_t saturated = 0;
};
LiteralCounts literal_counts(const ProgrammedRegion& region, MatrixView<const float> x, const ReadTime& time,
                             const ProductIds& ids);

// Outputs from counts: affine correction and compensation.
Matrix<float> literal_outputs(const ProgrammedRegion& region, const Matrix<double>& counts);
// Number of those outputs that reach the product limit.
std::uint64_t literal_limited(const ProgrammedRegion& region, const Matrix<double>& counts);

}  // namespace imka

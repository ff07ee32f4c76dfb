// The contract of readout.hpp as plain loops.
#pragma once

#include "imka/ops/readout/readout.hpp"

namespace imka::ops::reference {

StepSums quantize_row(const StepScale& scale, std::span<const float> x, std::span<float> steps);
std::size_t add_counts(const Counter& counter, const ChargeRow& row, std::span<float> counts);
std::size_t add_signed_counts(const Counter& counter, const ChargeRow& row,
                              std::span<const float> negative_gain, std::span<float> counts);
void affine_row(const AffineRow& affine, std::span<const float> counts, std::span<float> out);

// The nearest IEEE half-precision number, ties to even; infinite on overflow.
double to_half(double x);

}  // namespace imka::ops::reference

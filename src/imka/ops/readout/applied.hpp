// Inputs as the input converters of an analog array apply them.
//
// Domain: finite values (the result says whether they are), spans of equal size, no overlap. Accuracy:
// bit-identical to a plain loop (tests/support/applied_reference.hpp) on every instruction set: IEEE
// operations in the written order, none of them fused. Cost: one pass over the row, in the widest vectors of
// the processor, selected at run time.
#pragma once

#include <span>

#include "imka/ops/readout/readout.hpp"

namespace imka::ops {

// out[i] = range / levels * s in double, rounded to float; s is the step of x[i] (quantize_row). Returns
// whether all inputs are finite; out is meaningless otherwise.
bool apply_row(const StepScale& scale, std::span<const float> x, std::span<float> out);

}  // namespace imka::ops

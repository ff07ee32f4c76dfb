// Sums of weighted rows of a matrix.
//
// Domain: any floats and doubles; rows of the matrix, as many factors; no overlap. Accuracy: bit-identical to
// a plain loop (tests/support/row_sums_reference.hpp) on every instruction set: products and sums in double
// in the written order, none of them fused. Cost: one pass over the rows, in the widest vectors of the
// processor, selected at run time.
#pragma once

#include <cstdint>
#include <span>

#include "imka/base/matrix.hpp"

namespace imka::ops {

// sums[c] = 0 + factors[0] m(rows[0], c) + factors[1] m(rows[1], c) + ...
void row_sums(std::span<const std::uint32_t> rows, std::span<const double> factors, MatrixView<const float> m,
              std::span<double> sums);

}  // namespace imka::ops

// Dot product of float features with double weights, every product and sum in double.
//
// Domain: any values, equal sizes; 0 for empty inputs. NaN and infinities propagate.
// Accuracy: |error| <= (size / lanes + 8) 2^-53 sum |z[i] w[i]|; the order of the sums depends only on the
// instruction set, not on addresses. Cost: one pass over both, in the widest vectors of the processor,
// selected at run time.
#pragma once

#include <span>

namespace imka::ops {

double dot(std::span<const float> z, std::span<const double> w);

}  // namespace imka::ops

// The Walsh-Hadamard transform by its definition, O(n^2), for tests of the fast one.
#pragma once

#include <span>

namespace imka {

// out[k] = sum over j of (-1)^popcount(j & k) in[j]. Equal sizes, no overlap.
void fwht_reference(std::span<const double> in, std::span<double> out);

}  // namespace imka

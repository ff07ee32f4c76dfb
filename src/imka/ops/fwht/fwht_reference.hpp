// The Walsh-Hadamard transform by its definition, O(n^2): what the fast one is tested against.
#pragma once

#include <span>

namespace imka {

// out[k] = sum over j of (-1)^popcount(j & k) in[j]. The two do not overlap; equal sizes.
void fwht_reference(std::span<const double> in, std::span<double> out);

}  // namespace imka

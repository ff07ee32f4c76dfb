// The Walsh-Hadamard transform by its definition, O(n^2):
// out[k] = sum over j of (-1)^popcount(j & k) in[j]. Equal sizes, no overlap.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <span>

namespace imka {

inline void fwht_reference(std::span<const double> in, std::span<double> out) {
    assert(in.size() == out.size());
    for (std::size_t k = 0; k < out.size(); ++k) {
        out[k] = 0.0;
        for (std::size_t j = 0; j < in.size(); ++j) {
            const bool odd = std::popcount(j & k) % 2 != 0;
            out[k] += odd ? -in[j] : in[j];
        }
    }
}

}  // namespace imka

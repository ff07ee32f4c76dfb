// The contract of row_sums.hpp as a plain loop.
#pragma once

#include <cstdint>
#include <span>

#include "imka/base/matrix.hpp"

namespace imka::ops::reference {

inline void row_sums(std::span<const std::uint32_t> rows, std::span<const double> factors,
                     MatrixView<const float> m, std::span<double> sums) {
    for (std::size_t c = 0; c < sums.size(); ++c) {
        sums[c] = 0.0;
        for (std::size_t k = 0; k < rows.size(); ++k) sums[c] += factors[k] * double{m(rows[k], c)};
    }
}

}  // namespace imka::ops::reference

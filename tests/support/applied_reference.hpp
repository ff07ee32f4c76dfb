// The contract of applied.hpp as a plain loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "imka/ops/readout/applied.hpp"

namespace imka::ops::reference {

inline bool apply_row(const StepScale& scale, std::span<const float> x, std::span<float> out) {
    bool finite = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
        finite = finite && std::isfinite(x[i]);
        const double exact = std::clamp(double{x[i]} / scale.range, -1.0, 1.0) * scale.levels;
        const bool nearest = scale.rounding == StepRounding::nearest;
        const auto step = static_cast<int>(nearest ? std::nearbyint(exact) : std::trunc(exact));
        out[i] = static_cast<float>(scale.range / scale.levels * step);
    }
    return finite;
}

}  // namespace imka::ops::reference

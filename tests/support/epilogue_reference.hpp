// step_power of epilogue.hpp as a plain loop.
#pragma once

#include <cassert>
#include <cstddef>
#include <span>

namespace imka::ops::reference {

inline void step_power(std::span<const float> u, int power, float scale, std::span<float> out) {
    assert(out.size() == u.size() && power >= 0 && power <= 2);
    for (std::size_t i = 0; i < u.size(); ++i) {
        const float positive = u[i] <= 0.0F ? 0.0F : u[i];  // keeps NaN
        if (power == 0) {
            out[i] = u[i] > 0.0F ? scale : positive;
        } else {
            out[i] = scale * (power == 1 ? positive : positive * positive);
        }
    }
}

}  // namespace imka::ops::reference

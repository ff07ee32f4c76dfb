#include "imka/ops/epilogue/epilogue_reference.hpp"

#include <cassert>
#include <cmath>
#include <cstddef>

namespace imka::ops::reference {

void cos_sin(std::span<const float> u, float scale, std::span<float> c, std::span<float> s) {
    assert(c.size() == u.size() && s.size() == u.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
        c[i] = scale * std::cos(u[i]);
        s[i] = scale * std::sin(u[i]);
    }
}

void offset_cos(std::span<const float> u, std::span<const float> offset, float scale, std::span<float> out) {
    assert(offset.size() == u.size() && out.size() == u.size());
    for (std::size_t i = 0; i < u.size(); ++i) out[i] = scale * std::cos(u[i] + offset[i]);
}

void step_power(std::span<const float> u, int power, float scale, std::span<float> out) {
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

void exp_plus_minus(std::span<const float> u, float shift, float scale, std::span<float> p,
                    std::span<float> n) {
    assert(p.size() == u.size() && n.size() == u.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
        p[i] = scale * std::exp(u[i] + shift);
        n[i] = scale * std::exp(shift - u[i]);
    }
}

}  // namespace imka::ops::reference

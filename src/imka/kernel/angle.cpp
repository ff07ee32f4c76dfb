#include "imka/kernel/angle.hpp"

#include <cmath>

#include "imka/kernel/sums.hpp"

namespace imka {

Angle angle_between(std::span<const float> x, std::span<const float> y) {
    Angle a{.norm_x = std::sqrt(dot(x, x)), .norm_y = std::sqrt(dot(y, y))};
    if (has_zero(a)) return a;
    const auto length = [&](double sign) {
        return std::sqrt(lane_sum(x.size(), [&](std::size_t i) {
            const double v = double{x[i]} * a.norm_y + sign * (double{y[i]} * a.norm_x);
            return v * v;
        }));
    };
    a.supplement = 2.0 * std::atan2(length(1.0), length(-1.0));
    return a;
}

}  // namespace imka

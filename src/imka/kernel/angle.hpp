// Norms of two points and the angle between them, for the arc-cosine kernels.
#pragma once

#include <span>

namespace imka {

struct Angle {
    double norm_x = 0.0;
    double norm_y = 0.0;
    double supplement = 0.0;  // φ = π - θ, radians; 0 if a point is zero
};

// φ = 2 atan2(|x/|x| + y/|y||, |x/|x| - y/|y||). acos of the cosine would lose half the digits for nearly
// parallel and antiparallel points; this formula is within (d + 8) 2^-52 of the exact angle everywhere and
// gives exactly π for x = y.
Angle angle_between(std::span<const float> x, std::span<const float> y);

// Whether a point is zero: its features Θ(0) 0ⁿ are zero, so every arc-cosine kernel is 0.
inline bool has_zero(const Angle& a) {
    return a.norm_x == 0.0 || a.norm_y == 0.0;
}

}  // namespace imka

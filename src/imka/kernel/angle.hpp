// Lengths of two points and the angle between them: what the arc-cosine kernels are made of.
#pragma once

#include <span>

namespace imka {

struct Angle {
    double norm_x = 0.0;
    double norm_y = 0.0;
    double supplement = 0.0;  // φ = π - θ, radians; 0 where a point is zero
};

// φ = 2 atan2(|x/|x| + y/|y||, |x/|x| - y/|y||). The arc cosine of the cosine would lose half the digits near
// parallel and antiparallel points; this form is within (d + 8) 2^-52 of the exact angle everywhere, and a
// point with itself gives π.
Angle angle_between(std::span<const float> x, std::span<const float> y);

// True where a point is zero: its features Θ(0) 0ⁿ are zero, so every arc-cosine kernel is 0 there.
inline bool has_zero(const Angle& a) {
    return a.norm_x == 0.0 || a.norm_y == 0.0;
}

}  // namespace imka

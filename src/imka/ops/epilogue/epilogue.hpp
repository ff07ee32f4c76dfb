// Element-wise functions that turn a projection u = Ωx into features, one row at a time.
//
// Domain: any float. NaN in, NaN out; an infinite u gives NaN from cos and sin. Outputs may not overlap the
// input. Accuracy: cos, sin and exp are the C library's float functions (at most 1 ULP with glibc, for
// arguments of any size), then one rounding for the scale. Cost: one pass over u.
#pragma once

#include <span>

namespace imka::ops {

// c[i] = scale cos(u[i]), s[i] = scale sin(u[i]).
void cos_sin(std::span<const float> u, float scale, std::span<float> c, std::span<float> s);

// out[i] = scale cos(u[i] + offset[i]).
void offset_cos(std::span<const float> u, std::span<const float> offset, float scale, std::span<float> out);

// out[i] = scale Θ(u[i]) u[i]^power, Θ(0) = 0; power 0, 1 or 2.
void step_power(std::span<const float> u, int power, float scale, std::span<float> out);

// p[i] = scale exp(u[i] + shift), n[i] = scale exp(-u[i] + shift): one exponential each, so that a large |u|
// and a large negative shift do not overflow on the way.
void exp_plus_minus(std::span<const float> u, float shift, float scale, std::span<float> p,
                    std::span<float> n);

}  // namespace imka::ops

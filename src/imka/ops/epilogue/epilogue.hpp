// Element-wise functions that turn a projection u = Ωx into features, one row at a time.
//
// Domain: any float. NaN in, NaN out; an infinite u gives NaN from cos and sin. Outputs may not overlap the
// input. Accuracy: cos and sin within 1.2e-7 of the exact value (one unit in the last place of 1), for
// arguments of any size: beyond |u| = 12,800, where heavy-tailed laws go, the C library's functions are
// called. exp within 2 ULP. Then one rounding for the scale. A value's bits depend on the value and the
// instruction set alone, not on its place. Cost: one pass over u; vectors as wide as the processor has,
// chosen at run time. epilogue_reference.hpp is the naive form.
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

// Element-wise functions that turn a projection u = Ωx into features, one row at a time.
//
// Domain: any float. NaN in, NaN out; cos and sin of an infinite u are NaN. Outputs must not overlap the
// input. Accuracy: cos and sin within 1.2e-7 of the exact value (one unit in the last place of 1), for
// arguments of any size: beyond |u| = 12,800, which heavy-tailed laws produce, the C library is called. exp
// within 2 ULP. Then one rounding for the scale. The bits of a value depend only on the value and the
// instruction set, not on its position. Cost: one pass over u, in the widest vectors of the processor,
// selected at run time.
#pragma once

#include <span>

namespace imka::ops {

// c[i] = scale cos(u[i]), s[i] = scale sin(u[i]).
void cos_sin(std::span<const float> u, float scale, std::span<float> c, std::span<float> s);

// out[i] = scale cos(u[i] + offset[i]).
void offset_cos(std::span<const float> u, std::span<const float> offset, float scale, std::span<float> out);

// out[i] = scale Θ(u[i]) u[i]^power, Θ(0) = 0; power 0, 1 or 2.
void step_power(std::span<const float> u, int power, float scale, std::span<float> out);

// p[i] = scale exp(u[i] + shift), n[i] = scale exp(-u[i] + shift). One exponential each, so that a large |u|
// with a large negative shift does not overflow.
void exp_plus_minus(std::span<const float> u, float shift, float scale, std::span<float> p,
                    std::span<float> n);

}  // namespace imka::ops

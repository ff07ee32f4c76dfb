// scale cos(x) and scale sin(x) with few operations, for GPUs. Also runs on the processor, where tests check
// it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "imka/cuda/on_both.hpp"

namespace imka::ops {

struct CosSinValue {
    float cos;
    float sin;
};

inline constexpr float kLargestAngle = 12800.0F;

// |x| <= kLargestAngle. Each value has an error of at most 1.5e-7 scale, plus one rounding. x is reduced by
// multiples of pi, so that cos and sin keep their places and share a sign. Compiled without contraction: only
// fmaf is fused.
IMKA_ON_BOTH inline CosSinValue scaled_cos_sin_of_small(float x, float scale) {
    constexpr float kRound = 12582912.0F;  // 1.5 x 2^23: adding it rounds to an integer
    const float shifted = fmaf(x, 0x1.45f306p-2F, kRound);
    const float n = shifted - kRound;
    float r = fmaf(-n, 0x1.921fb6p+1F, x);  // exact
    r = fmaf(-n, -0x1.777a5cp-24F, r);
    const float r2 = r * r;
    float s = fmaf(r2, 0x1.5ce5c6p-19F, -0x1.9f5f1cp-13F);
    s = fmaf(r2, s, 0x1.110e66p-7F);
    s = fmaf(r2, s, -0x1.555548p-3F);
    s = fmaf(s, r2 * r, r);
    float c = fmaf(r2, -0x1.17ec84p-22F, 0x1.9f6e7ep-16F);
    c = fmaf(r2, c, -0x1.6c1376p-10F);
    c = fmaf(r2, c, 0x1.555548p-5F);
    c = fmaf(r2, c, -0.5F);
    c = fmaf(r2, c, 1.0F);
    // The sign is the lowest bit of n, which is that of `shifted`.
    std::uint32_t parity = 0;
    std::uint32_t bits = 0;
    memcpy(&parity, &shifted, sizeof(parity));
    memcpy(&bits, &scale, sizeof(bits));
    bits ^= parity << 31U;
    float signed_scale = 0.0F;
    memcpy(&signed_scale, &bits, sizeof(bits));
    return {signed_scale * c, signed_scale * s};
}

}  // namespace imka::ops

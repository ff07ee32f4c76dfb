// The functions of epilogue.hpp on a GPU. cos_sin_of: the same operations in the same order, hence the same
// bits as on processors with fused multiply-adds; scaled_cos_sin_of can be faster. exp is CUDA's, within 2
// ULP.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "imka/ops/epilogue/scaled_cos_sin.hpp"

namespace imka::ops {

// Angles that the reduction below does not cover. Out of line, because CUDA's functions need many registers.
__device__ __noinline__ inline CosSinValue cos_sin_of_large(float x) {
    return {cosf(x), sinf(x)};
}

// |x| <= kLargestAngle.
__device__ inline CosSinValue cos_sin_of_small(float x) {
    constexpr float kRound = 12582912.0F;  // 1.5 x 2^23: adding it rounds to an integer
    const float shifted = __fadd_rn(__fmul_rn(x, 0.636619772F), kRound);
    const float n = __fsub_rn(shifted, kRound);
    const std::uint32_t q = __float_as_uint(shifted);  // n in its lowest bits
    float r = __fmaf_rn(-n, 0x1.92p0F, x);
    r = __fmaf_rn(-n, 0x1.fb4p-12F, r);
    r = __fmaf_rn(-n, 0x1.4442d2p-24F, r);
    const float r2 = __fmul_rn(r, r);
    float s = __fmaf_rn(r2, -0.00019517233886290342F, 0.008332177996635437F);
    s = __fmaf_rn(r2, s, -0.16666655242443085F);
    s = __fmaf_rn(__fmul_rn(s, r2), r, r);
    float c = __fmaf_rn(r2, 2.4438377295155078e-05F, -0.0013887366512790322F);
    c = __fmaf_rn(r2, c, 0.04166664555668831F);
    c = __fmaf_rn(__fmul_rn(r2, r2), c, __fmaf_rn(-r2, 0.5F, 1.0F));
    const bool swap = (q & 1U) != 0;
    const float first = swap ? s : c;
    const float second = swap ? c : s;
    // Signs: bit 1 of q + 1, and of q.
    return {__uint_as_float(__float_as_uint(first) ^ ((q * 0x40000000U + 0x40000000U) & 0x80000000U)),
            __uint_as_float(__float_as_uint(second) ^ ((q * 0x40000000U) & 0x80000000U))};
}

// scale cos(x) and scale sin(x), all at once, with one branch, so that the operations of different values
// overlap. `bound`: an upper bound of |x|.
template <bool kProcessorBits, unsigned kCount>
__device__ inline void scaled_cos_sin_of(const float (&x)[kCount], const float (&scale)[kCount], float bound,
                                         float (&cosines)[kCount], float (&sines)[kCount]) {
    const auto set = [&](unsigned i, const CosSinValue& y) {
        cosines[i] = __fmul_rn(scale[i], y.cos);
        sines[i] = __fmul_rn(scale[i], y.sin);
    };
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
        // NaN stays NaN.
        if constexpr (kProcessorBits) {
            set(i, cos_sin_of_small(x[i]));
        } else {
            const CosSinValue y = scaled_cos_sin_of_small(x[i], scale[i]);
            cosines[i] = y.cos;
            sines[i] = y.sin;
        }
    }
    if (bound <= kLargestAngle) return;
    float largest = 0.0F;
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) largest = fmaxf(largest, fabsf(x[i]));
    if (largest <= kLargestAngle) return;
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
        if (fabsf(x[i]) > kLargestAngle) set(i, cos_sin_of_large(x[i]));
    }
}

__device__ inline CosSinValue cos_sin_of(float x) {
    return fabsf(x) > kLargestAngle ? cos_sin_of_large(x) : cos_sin_of_small(x);
}

// scale Θ(u) u^power; keeps NaN.
template <int kPower>
__device__ inline float step_power_of(float u, float scale) {
    const float positive = u <= 0.0F ? 0.0F : u;
    if constexpr (kPower == 0) return u > 0.0F ? scale : positive;
    return __fmul_rn(scale, kPower == 2 ? __fmul_rn(positive, positive) : positive);
}

}  // namespace imka::ops

// Features of single projections, and the exponents that they are relative to.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "imka/ops/attention/gpu_attention.hpp"
#include "imka/ops/epilogue/epilogue.cuh"

namespace imka::ops::heads {

constexpr unsigned kAll = 0xffffffffU;

template <AttentionForm F>
constexpr int kSigns = F == AttentionForm::positive || F == AttentionForm::cos_sin ? 2 : 1;
template <AttentionForm F>
constexpr bool kExponential = F == AttentionForm::positive || F == AttentionForm::single ||
                              F == AttentionForm::exp || F == AttentionForm::cos_sin;
// Whether exponents depend on the projections.
template <AttentionForm F>
constexpr bool kHasLevels = kExponential<F>&& F != AttentionForm::cos_sin;

// Features of a direction; `second` only if there are two.
struct Pair {
    float first = 0.0F;
    float second = 0.0F;
};

// shift: added to the exponents; 0 for other forms.
template <AttentionForm F>
__device__ inline Pair features_of(float u, float shift) {
    if constexpr (F == AttentionForm::positive) {
        return {expf(u + shift), expf(shift - u)};
    } else if constexpr (F == AttentionForm::single || F == AttentionForm::exp) {
        return {expf(u + shift), 0.0F};
    } else if constexpr (F == AttentionForm::cos_sin) {
        const CosSinValue v = cos_sin_of(u);
        const float amplitude = expf(shift);
        return {amplitude * v.cos, amplitude * v.sin};
    } else if constexpr (F == AttentionForm::relu) {
        return {fmaxf(u, 0.0F), 0.0F};
    } else if constexpr (F == AttentionForm::elu) {
        return {fmaxf(u, 0.0F) + expf(fminf(u, 0.0F)), 0.0F};
    } else {
        return {u * u, 0.0F};
    }
}
template <AttentionForm F>
__device__ inline Pair query_features_of(float u, float level, float epsilon) {
    const Pair z = features_of<F>(u, -level);
    return {z.first + epsilon, z.second + epsilon};
}
// shift and level are those of the key; shift is -infinity for an ignored key. Exponential features get their
// epsilon later, relative to the largest exponent of all keys.
template <AttentionForm F>
__device__ inline Pair key_features_of(float u, float shift, float level, float epsilon) {
    if (shift == -INFINITY) return {};
    if constexpr (kExponential<F>) return features_of<F>(u, shift - level);
    return {features_of<F>(u, 0.0F).first + epsilon, 0.0F};
}

// Exponent of the larger feature of a projection.
template <AttentionForm F>
__device__ inline float level_of(float u) {
    return F == AttentionForm::positive ? fabsf(u) : u;
}

__device__ inline float warp_max(float v) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v = fmaxf(v, __shfl_xor_sync(kAll, v, i));
    return v;
}
__device__ inline float warp_sum(float v) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(kAll, v, i);
    return v;
}

// Largest exponent of a row of projections, for all lanes of a warp; 0 unless the exponents depend on the
// projections.
template <AttentionForm F>
__device__ inline float row_level(const float* u, int directions) {
    if constexpr (!kHasLevels<F>) return 0.0F;
    float level = -INFINITY;
    for (int d = static_cast<int>(threadIdx.x % 32); d < directions; d += 32)
        level = fmaxf(level, level_of<F>(u[d]));
    return warp_max(level);
}

// Shifts and levels of all keys: exponents of the factor exp(norm_exponent |key|²) and of the largest
// feature, relative to 1. -infinity for ignored keys.
struct KeyExponents {
    float* shifts = nullptr;
    float* levels = nullptr;
};
std::size_t key_count(const GpuHeadSizes& size);  // of all heads and sequences
void start_key_exponents(const GpuKernelAttention& work, const KeyExponents& out);

// Calls body.template operator()<form>() with the form as a constant.
template <class Body>
void with_form(AttentionForm form, const Body& body) {
    switch (form) {
        case AttentionForm::positive:
            return body.template operator()<AttentionForm::positive>();
        case AttentionForm::single:
        case AttentionForm::exp:
            return body.template operator()<AttentionForm::single>();
        case AttentionForm::cos_sin:
            return body.template operator()<AttentionForm::cos_sin>();
        case AttentionForm::relu:
            return body.template operator()<AttentionForm::relu>();
        case AttentionForm::elu:
            return body.template operator()<AttentionForm::elu>();
        case AttentionForm::square:
            return body.template operator()<AttentionForm::square>();
    }
}

constexpr int divide_up(int a, int b) {
    return (a + b - 1) / b;
}

}  // namespace imka::ops::heads

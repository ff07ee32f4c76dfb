// Elements of GPU kernels: floats or bfloat16 in memory, floats in registers.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>

namespace imka::ops {

using Bfloat = __nv_bfloat16;

// N neighbouring elements as floats. N: a multiple of 4; of 8 for 16-byte accesses of bfloat16.
template <int N>
__device__ inline void load(const float* from, float (&to)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + i);
        to[i] = v.x;
        to[i + 1] = v.y;
        to[i + 2] = v.z;
        to[i + 3] = v.w;
    }
}
__device__ inline float low(std::uint32_t w) {
    return __uint_as_float(w << 16U);
}
__device__ inline float high(std::uint32_t w) {
    return __uint_as_float(w & 0xffff0000U);
}
template <int N>
__device__ inline void load(const Bfloat* from, float (&to)[N]) {
    std::uint32_t w[N / 2];
    if constexpr (N == 4) {
        const uint2 v = *reinterpret_cast<const uint2*>(from);
        w[0] = v.x;
        w[1] = v.y;
    } else {
#pragma unroll
        for (int i = 0; i < N / 2; i += 4) {
            const uint4 v = *reinterpret_cast<const uint4*>(from + 2 * i);
            w[i] = v.x;
            w[i + 1] = v.y;
            w[i + 2] = v.z;
            w[i + 3] = v.w;
        }
    }
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
        to[2 * i] = low(w[i]);
        to[2 * i + 1] = high(w[i]);
    }
}

// N neighbouring elements as loaded: no code waits for them until they are read.
template <class T, int N>
struct Raw {
    alignas(16) std::uint32_t words[N * sizeof(T) / 4] = {};
    __device__ void load_from(const T* from) {
        if constexpr (sizeof(words) == 8) {
            *reinterpret_cast<uint2*>(words) = *reinterpret_cast<const uint2*>(from);
        } else {
#pragma unroll
            for (unsigned i = 0; i < sizeof(words) / 16; ++i)
                reinterpret_cast<uint4*>(words)[i] = reinterpret_cast<const uint4*>(from)[i];
        }
    }
    __device__ void read(float (&to)[N]) const {
        load(reinterpret_cast<const T*>(words), to);
    }
};

__device__ inline std::uint32_t pair_of(float a, float b) {
    const __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
    std::uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

template <int N>
__device__ inline void store(const float (&from)[N], float* to) {
#pragma unroll
    for (int i = 0; i < N; i += 4)
        *reinterpret_cast<float4*>(to + i) = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
}
template <int N>
__device__ inline void store(const float (&from)[N], Bfloat* to) {
    if constexpr (N == 4) {
        *reinterpret_cast<uint2*>(to) = make_uint2(pair_of(from[0], from[1]), pair_of(from[2], from[3]));
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 8)
            *reinterpret_cast<uint4*>(to + i) =
                make_uint4(pair_of(from[i], from[i + 1]), pair_of(from[i + 2], from[i + 3]),
                           pair_of(from[i + 4], from[i + 5]), pair_of(from[i + 6], from[i + 7]));
    }
}

// Sum over `Lanes` neighbouring lanes.
template <int Lanes>
__device__ inline float lane_sum(float v) {
#pragma unroll
    for (int i = 1; i < Lanes; i *= 2) v += __shfl_xor_sync(0xffffffffU, v, i);
    return v;
}

}  // namespace imka::ops

// From projections to features: what all kernels of gpu_features.hpp share.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "imka/ops/epilogue/epilogue.cuh"
#include "imka/ops/feature_row/feature_row.hpp"
#include "imka/ops/feature_row/gpu_features.hpp"

namespace imka::ops {

// Output of the functions, and their parameters in addition to u and the value of the row.
struct FeatureOutput {
    float* z = nullptr;
    std::size_t stride = 0;
    std::size_t m = 0;
    const float* offsets = nullptr;
    float scale = 1.0F;      // offset_cos: with sqrt(2)
    double row_scale = 1.0;  // of cos_sin, times exp(norm_exponent |x|²)
    double norm_exponent = 0.0;
    bool vectors = false;  // four neighbours can be written at once
    bool round = false;    // to 11 bits
};

FeatureOutput feature_output(const GpuFeatureJob& job, std::size_t m);

// The value of a row: the scale of cos_sin, the shift of the exponentials. As feature_row on the processor.
__device__ inline float row_value(FeatureFunction function, const FeatureOutput& out, double norm2) {
    if (out.norm_exponent == 0.0)
        return function == FeatureFunction::exp_plus_minus ? 0.0F : static_cast<float>(out.row_scale);
    const double exponent = out.norm_exponent * norm2;
    return static_cast<float>(function == FeatureFunction::exp_plus_minus ? exponent
                                                                          : out.row_scale * exp(exponent));
}

template <FeatureFunction kFunction>
constexpr bool kHasTwo =
    kFunction == FeatureFunction::cos_sin || kFunction == FeatureFunction::exp_plus_minus;

// To 11 bits.
__device__ inline float rounded_to_tf32(float value) {
    std::uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}

// What all projections share.
struct FeatureScale {
    float scale;
    bool round;
    float bound = INFINITY;  // an upper bound of |u|
};

// Features of projections u. `offset`: for offset_cos; `extra`: row_value; `second`: for functions with two
// features. kProcessorBits: cos and sin have the bits of the processor, which takes longer.
template <FeatureFunction kFunction, bool kProcessorBits, unsigned kCount>
__device__ inline void features_of_values(const float (&u)[kCount], const float (&offset)[kCount],
                                          const float (&extra)[kCount], const FeatureScale& all,
                                          float (&first)[kCount], float (&second)[kCount]) {
    if constexpr (kFunction == FeatureFunction::cos_sin || kFunction == FeatureFunction::offset_cos) {
        constexpr bool kOffset = kFunction == FeatureFunction::offset_cos;
        float angle[kCount];
        float scale[kCount];
#pragma unroll
        for (unsigned i = 0; i < kCount; ++i) {
            angle[i] = kOffset ? __fadd_rn(u[i], offset[i]) : u[i];
            scale[i] = kOffset ? all.scale : extra[i];
        }
        scaled_cos_sin_of<kProcessorBits>(angle, scale, kOffset ? INFINITY : all.bound, first, second);
    } else {
        constexpr int kPower = kFunction == FeatureFunction::step   ? 0
                               : kFunction == FeatureFunction::relu ? 1
                                                                    : 2;
#pragma unroll
        for (unsigned i = 0; i < kCount; ++i) {
            if constexpr (kFunction == FeatureFunction::exp_plus_minus) {
                first[i] = __fmul_rn(all.scale, expf(__fadd_rn(u[i], extra[i])));
                second[i] = __fmul_rn(all.scale, expf(__fsub_rn(extra[i], u[i])));
            } else if constexpr (kFunction == FeatureFunction::identity) {
                first[i] = __fmul_rn(all.scale, u[i]);
            } else {
                first[i] = step_power_of<kPower>(u[i], all.scale);
            }
        }
    }
    if (!all.round) return;
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
        first[i] = rounded_to_tf32(first[i]);
        if constexpr (kHasTwo<kFunction>) second[i] = rounded_to_tf32(second[i]);
    }
}

// Calls body.template operator()<function>() with the function as a constant.
template <class Body>
void with_function(FeatureFunction function, const Body& body) {
    switch (function) {
        case FeatureFunction::cos_sin:
            return body.template operator()<FeatureFunction::cos_sin>();
        case FeatureFunction::offset_cos:
            return body.template operator()<FeatureFunction::offset_cos>();
        case FeatureFunction::exp_plus_minus:
            return body.template operator()<FeatureFunction::exp_plus_minus>();
        case FeatureFunction::step:
            return body.template operator()<FeatureFunction::step>();
        case FeatureFunction::relu:
            return body.template operator()<FeatureFunction::relu>();
        case FeatureFunction::relu_squared:
            return body.template operator()<FeatureFunction::relu_squared>();
        case FeatureFunction::identity:
            return body.template operator()<FeatureFunction::identity>();
    }
}

// Smallest r d + c of a value that is not finite.
__device__ inline void report_not_finite(std::uint64_t* place, std::uint64_t index) {
    atomicMin(reinterpret_cast<unsigned long long*>(place), static_cast<unsigned long long>(index));
}

__device__ inline double warp_sum(double v) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(0xffffffffU, v, i);
    return v;
}

}  // namespace imka::ops

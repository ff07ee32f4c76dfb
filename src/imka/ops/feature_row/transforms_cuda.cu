// Features with an Ω of transforms, and features of given projections. A warp computes a block of n outputs
// of a row: lane l has values l, l + 32, ...; levels below 32 exchange values between lanes, the others are
// in registers. Same order of additions as on the processor, hence the same bits.
#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/status.hpp"
#include "imka/ops/feature_row/feature_values.cuh"

namespace imka::ops {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
constexpr std::size_t kMostBlocks = std::size_t{1} << 30U;

// value + other in the lower lane of a pair, other - value in the upper one.
__device__ inline float across(float value, unsigned distance) {
    const float other = __shfl_xor_sync(0xffffffffU, value, distance);
    const float sign = (threadIdx.x & distance) != 0 ? -1.0F : 1.0F;
    return __fmaf_rn(value, sign, other);
}

template <int V>
__device__ inline void lane_level(unsigned distance, float (&v)[V]) {
#pragma unroll
    for (int j = 0; j < V; ++j) v[j] = across(v[j], distance);
}

template <int V>
__device__ inline void register_level(int half, float (&v)[V]) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
        if ((j & half) != 0) continue;
        const float a = v[j];
        const float b = v[j | half];
        v[j] = __fadd_rn(a, b);
        v[j | half] = __fsub_rn(a, b);
    }
}

// n < 32: several blocks share a warp.
template <int V>
__device__ inline void ascend(unsigned n, float (&v)[V]) {
#pragma unroll
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        if (distance < n) lane_level(distance, v);
    }
#pragma unroll
    for (int half = 1; half < V; half *= 2) register_level(half, v);
}

template <int V>
__device__ inline void descend(unsigned n, float (&v)[V]) {
#pragma unroll
    for (int half = V / 2; half > 0; half /= 2) register_level(half, v);
#pragma unroll
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        if (distance < n) lane_level(distance, v);
    }
}

template <int V>
__device__ inline void multiply_by(const float* diagonal, float (&v)[V]) {
#pragma unroll
    for (int j = 0; j < V; ++j) v[j] = __fmul_rn(v[j], diagonal[32 * j + threadIdx.x % 32]);
}

struct Transforms {
    const float* x;
    std::size_t rows;
    unsigned d;
    unsigned n;
    unsigned blocks;  // of 32 V outputs per row
    std::size_t padded;
    const float* diagonals;  // first, second, third, scale
    float input_scale;
    std::uint64_t* not_finite;
    std::uint64_t first_value;
    FeatureOutput out;
};

// Loads and scales a row, and reports values that are not finite.
template <int V>
__device__ inline void load_row(const Transforms& w, std::size_t row, float (&v)[V]) {
    const float* x = w.x + row * w.d;
    bool finite = true;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        const unsigned c = (32 * j + threadIdx.x % 32) % w.n;  // n is a power of two
        v[j] = c < w.d ? x[c] : 0.0F;
    }
#pragma unroll
    for (int j = 0; j < V; ++j) {
        finite = finite && isfinite(v[j]);
        v[j] = __fmul_rn(w.input_scale, v[j]);
    }
    if (finite) return;
    for (unsigned c = 0; c < w.d; ++c) {
        if (!isfinite(x[c])) report_not_finite(w.not_finite, w.first_value + row * w.d + c);
    }
}

// |row|². If several blocks share the warp, only one copy of the row counts.
template <int V>
__device__ inline double squared_norm(const Transforms& w, const float (&v)[V]) {
    double sum = 0.0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        const double value = v[j];
        if (32 * j + threadIdx.x % 32 < w.n) sum += value * value;
    }
    return warp_sum(sum);
}

// Writes the features of kCount projections to row z; the projections are `distance` columns apart, from
// column `first` on.
template <FeatureFunction kFunction, unsigned kCount>
__device__ inline void write_values(const FeatureOutput& out, const float* u, std::size_t first,
                                    unsigned distance, float of_row, float* z) {
    float projection[kCount];
    float extra[kCount];
    float offset[kCount] = {};
    float one[kCount];
    float two[kCount];
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
        projection[i] = u[i];
        extra[i] = of_row;
        if constexpr (kFunction == FeatureFunction::offset_cos) {
            const std::size_t column = first + i * distance;
            if (column < out.m) offset[i] = out.offsets[column];
        }
    }
    features_of_values<kFunction, true>(projection, offset, extra, {out.scale, out.round}, one, two);
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
        const std::size_t column = first + i * distance;
        if (column >= out.m) break;
        __stcs(z + column, one[i]);
        if constexpr (kHasTwo<kFunction>) __stcs(z + out.m + column, two[i]);
    }
}

template <FeatureFunction kFunction, int V>
__global__ void __launch_bounds__(kThreads) transforms(const __grid_constant__ Transforms w) {
    const std::size_t units = w.rows * w.blocks;
    const std::size_t step = std::size_t{gridDim.x} * kWarps;
    const unsigned lane = threadIdx.x % 32;
    for (std::size_t unit = std::size_t{blockIdx.x} * kWarps + threadIdx.x / 32; unit < units; unit += step) {
        const std::size_t row = unit / w.blocks;
        const std::size_t first = unit % w.blocks * (32 * V);
        float v[V];
        load_row(w, row, v);
        const double norm2 = w.out.norm_exponent != 0.0 ? squared_norm(w, v) : 0.0;
        const float* diagonal = w.diagonals + first;
        multiply_by(diagonal, v);
        ascend(w.n, v);
        multiply_by(diagonal + w.padded, v);
        descend(w.n, v);
        multiply_by(diagonal + 2 * w.padded, v);
        ascend(w.n, v);
        multiply_by(diagonal + 3 * w.padded, v);
        const float extra = row_value(kFunction, w.out, norm2);
        float* z = w.out.z + row * w.out.stride;
        constexpr int kAtOnce = V < 8 ? V : 8;
#pragma unroll
        for (int j = 0; j < V; j += kAtOnce)
            write_values<kFunction, kAtOnce>(w.out, v + j, first + 32 * j + lane, 32, extra, z);
    }
}

unsigned grid_for(std::size_t units) {
    return static_cast<unsigned>(std::min((units + kWarps - 1) / kWarps, kMostBlocks));
}

template <int V>
void start_transforms(const GpuFeatureJob& job, const Transforms& work) {
    with_function(job.row.function, [&]<FeatureFunction kFunction>() {
        transforms<kFunction, V><<<grid_for(work.rows * work.blocks), kThreads>>>(work);
    });
    cuda::check(cudaGetLastError(), "starting the kernel for structured features");
}

struct Given {
    GpuProjections projections;
    std::size_t rows;
    FeatureOutput out;
};

// A thread per value, in memory order.
template <FeatureFunction kFunction>
__global__ void __launch_bounds__(kThreads) functions(const __grid_constant__ Given w) {
    const auto& p = w.projections;
    const std::size_t count = w.rows * p.m;
    const std::size_t step = std::size_t{gridDim.x} * kThreads;
    for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
        const std::size_t row = i / p.m;
        const std::size_t column = i % p.m;
        float u = p.u[i];
        if (p.lost > 0 && (p.first + row) % p.lost == p.lost - 1) u = 0.0F;
        if (p.factors != nullptr) u = __fmul_rn(u, p.factors[column]);
        write_values<kFunction, 1>(w.out, &u, column, 0, p.extra[row], w.out.z + row * w.out.stride);
    }
}

struct Scaling {
    GpuFeatureJob job;
    GpuScaledRows to;
    FeatureOutput out;
};

// A warp per row.
__global__ void __launch_bounds__(kThreads) scale_values(const __grid_constant__ Scaling w) {
    const std::size_t row = std::size_t{blockIdx.x} * kWarps + threadIdx.x / 32;
    if (row >= w.job.rows) return;
    double norm2 = 0.0;
    for (std::size_t c = threadIdx.x % 32; c < w.to.d; c += 32) {
        const std::size_t i = row * w.to.d + c;
        const float value = w.job.x[i];
        if (!isfinite(value)) report_not_finite(w.job.not_finite, w.job.first_value + i);
        const float v = __fmul_rn(w.job.input_scale, value);
        w.to.scaled[i] = v;
        norm2 += static_cast<double>(v) * static_cast<double>(v);
    }
    norm2 = warp_sum(norm2);
    if (threadIdx.x % 32 == 0) w.to.extra[row] = row_value(w.job.row.function, w.out, norm2);
}

}  // namespace

TransformsOnGpu::TransformsOnGpu(int gpu, const SignHadamard& matrix)
    : d_(matrix.d), n_(matrix.n), m_(matrix.m) {
    // Rounded up to whole blocks or warps; values after the m-th are not used.
    const std::size_t unit = std::max<std::size_t>(n_, 32);
    padded_ = (m_ + unit - 1) / unit * unit;
    diagonals_ = cuda::Memory(gpu, 4 * padded_ * sizeof(float), cuda::MemorySource::pooled);
    std::vector<float> all(4 * padded_);
    std::size_t at = 0;
    for (const auto* diagonal : {&matrix.first, &matrix.second, &matrix.third, &matrix.scale}) {
        std::copy_n(diagonal->begin(), std::min(padded_, diagonal->size()),
                    all.begin() + static_cast<std::ptrdiff_t>(at));
        at += padded_;
    }
    diagonals_.upload(all.data(), all.size() * sizeof(float));
}

void TransformsOnGpu::features(const GpuFeatureJob& job) const {
    if (job.rows == 0) return;
    Transforms work{};
    work.x = job.x;
    work.rows = job.rows;
    work.d = static_cast<unsigned>(d_);
    work.n = static_cast<unsigned>(n_);
    work.blocks = static_cast<unsigned>(padded_ / std::max<std::size_t>(n_, 32));
    work.padded = padded_;
    work.diagonals = static_cast<const float*>(diagonals_.data());
    work.input_scale = job.input_scale;
    work.not_finite = job.not_finite;
    work.first_value = job.first_value;
    work.out = feature_output(job, m_);
    switch (std::max<std::size_t>(n_, 32) / 32) {
        case 1:
            return start_transforms<1>(job, work);
        case 2:
            return start_transforms<2>(job, work);
        case 4:
            return start_transforms<4>(job, work);
        case 8:
            return start_transforms<8>(job, work);
        case 16:
            return start_transforms<16>(job, work);
        default:
            static_assert(kLargestBlock == 32 * 32);
            return start_transforms<32>(job, work);
    }
}

void features_of(const GpuProjections& projections, const GpuFeatureJob& job) {
    if (job.rows == 0) return;
    const Given work{projections, job.rows, feature_output(job, projections.m)};
    const std::size_t blocks = (job.rows * projections.m + kThreads - 1) / kThreads;
    with_function(job.row.function, [&]<FeatureFunction kFunction>() {
        functions<kFunction>
            <<<static_cast<unsigned>(std::min<std::size_t>(blocks, 1U << 20U)), kThreads>>>(work);
    });
    cuda::check(cudaGetLastError(), "starting the kernel for functions of projections");
}

void scale_rows(const GpuFeatureJob& job, const GpuScaledRows& out) {
    if (job.rows == 0) return;
    scale_values<<<grid_for(job.rows), kThreads>>>({job, out, feature_output(job, 0)});
    cuda::check(cudaGetLastError(), "starting the kernel that scales rows");
}

}  // namespace imka::ops

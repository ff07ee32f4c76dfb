// Parts of the kernels of norm.hpp and pointwise.hpp: rows of tokens, dropped elements, sums of columns.
// A thread has 8 neighbouring columns of a row.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "imka/cuda/random.cuh"
#include "imka/cuda/status.hpp"
#include "imka/ops/elements.cuh"
#include "imka/ops/norm/rows.hpp"

namespace imka::ops::rows {

inline constexpr int kThreads = 256;
inline constexpr int kColumns = 8;  // of a thread

// TokenRows with 32-bit integers.
struct Shape {
    unsigned rows;
    unsigned tokens;
    int width;
    const std::int32_t* lengths;
};
inline Shape shape_of(const TokenRows& r) {
    return {static_cast<unsigned>(r.documents * r.tokens), static_cast<unsigned>(r.tokens),
            static_cast<int>(r.width), r.lengths};
}
// A row that exists and is not padding.
__device__ inline bool is_used(const Shape& s, unsigned row) {
    if (row >= s.rows) return false;
    if (s.lengths == nullptr) return true;
    const unsigned document = row / s.tokens;
    return static_cast<int>(row - document * s.tokens) < s.lengths[document];
}
__device__ inline std::int64_t element_at(const Shape& s, unsigned row, int column) {
    return std::int64_t{row} * s.width + column;
}

// Dropout in the form that kernels use.
struct Drop {
    std::uint32_t least;  // 16 random bits below it: dropped
    float scale;
    const std::uint64_t* seed;
    std::uint32_t stream;

    __device__ std::uint64_t read_seed() const { return least == 0U ? 0U : *seed; }
    // Bit i: element first + i is kept. first: a multiple of 8.
    __device__ unsigned kept(std::uint64_t seed_value, std::int64_t first) const {
        if (least == 0U) return 0xffU;
        // The round keys are computed here: kept across a loop, they would fill 20 registers.
        asm volatile("" : "+l"(seed_value));
        const uint4 r =
            cuda::philox(cuda::philox_keys(seed_value), static_cast<std::uint64_t>(first) / 8U, stream);
        return pair(r.x) | pair(r.y) << 2U | pair(r.z) << 4U | pair(r.w) << 6U;
    }
    __device__ void apply(unsigned kept, float (&v)[kColumns]) const {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) v[i] = (kept >> i & 1U) != 0U ? scale * v[i] : 0.0F;
    }

private:
    __device__ unsigned pair(std::uint32_t word) const {
        return static_cast<unsigned>((word & 0xffffU) >= least) | static_cast<unsigned>(word >> 16U >= least)
                                                                      << 1U;
    }
};
inline Drop drop_of(const Dropout& d) {
    const auto least = static_cast<std::uint32_t>(std::lround(65536.0 * d.share));
    return {least, 65536.0F / static_cast<float>(65536U - least), d.seed, d.stream};
}

template <int N>
__device__ inline void clear(float (&v)[N]) {
#pragma unroll
    for (float& x : v) x = 0.0F;
}
template <int N>
__device__ inline void add(const float (&x)[N], float (&to)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] += x[i];
}

// Adds the sums of all threads with the same columns, in a fixed order. Thread t has columns
// 8 (t % lanes) to 8 (t % lanes) + 7; `partials`: the place of this block, `width` floats per kind.
template <int Kinds>
__device__ inline void write_partials(const float (&sums)[Kinds][kColumns], int lanes, int width,
                                      float* partials) {
    __shared__ float shared[kThreads][kColumns + 1];
    const int t = static_cast<int>(threadIdx.x);
    for (int kind = 0; kind < Kinds; ++kind) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kColumns; ++i) shared[t][i] = sums[kind][i];
        __syncthreads();
        for (int c = t; c < width; c += kThreads) {
            float sum = 0.0F;
            for (int from = c / kColumns; from < kThreads / lanes * lanes; from += lanes)
                sum += shared[from][c % kColumns];
            partials[kind * width + c] = sum;
        }
    }
}

// Destinations of the sums of each kind; nullptr: not written.
struct SumTargets {
    float* to[kMostKinds];
};
// Sums over blocks, in a fixed order. partials: blocks x (kinds x width).
static __global__ void __launch_bounds__(1024)
    combine_partials(const float* partials, unsigned blocks, int columns, int width,
                     const __grid_constant__ SumTargets targets) {
    __shared__ float shared[32][33];
    const int column = static_cast<int>(blockIdx.x * 32U + threadIdx.x);
    float sum = 0.0F;
    if (column < columns) {
        for (unsigned b = threadIdx.y; b < blocks; b += 32U)
            sum += partials[std::int64_t{b} * columns + column];
    }
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0U || column >= columns) return;
    for (int i = 1; i < 32; ++i) sum += shared[i][threadIdx.x];
    float* const to = targets.to[column / width];
    if (to != nullptr) to[column % width] = sum;
}

struct Launch {
    unsigned blocks;
    cudaStream_t stream;
};
// rows_per_block: rows that a block processes at a time.
inline Launch launch_of(const Shape& s, unsigned rows_per_block, void* stream) {
    const unsigned most = (s.rows + rows_per_block - 1) / rows_per_block;
    return {most < kBlocks ? most : kBlocks, static_cast<cudaStream_t>(stream)};
}
inline void combine(const float* partials, int kinds, int width, const Launch& launch,
                    const SumTargets& targets) {
    const int columns = kinds * width;
    combine_partials<<<static_cast<unsigned>(columns + 31) / 32U, dim3(32, 32), 0, launch.stream>>>(
        partials, launch.blocks, columns, width, targets);
    cuda::check(cudaGetLastError(), "starting sums of columns");
}

}  // namespace imka::ops::rows

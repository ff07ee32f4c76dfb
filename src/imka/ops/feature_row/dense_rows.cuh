// What the kernels for features with a dense Ω share: rows as pairs of halves, and features from sums.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "imka/ops/feature_row/feature_tiles.hpp"
#include "imka/ops/feature_row/feature_values.cuh"

namespace imka::ops {

// Rows of x as they come.
struct InputRows {
    const float* x = nullptr;
    std::size_t rows = 0;
    std::size_t d = 0;
    float scale = 1.0F;
    std::uint64_t* not_finite = nullptr;
    std::uint64_t first_index = 0;  // of x[0]
};

// Powers of two that scale a row. Its largest value becomes 2^13 to 2^14: this is far from the largest half,
// and the low parts of the other values are normal numbers.
struct RowScale {
    float up;
    float down;
};
__device__ inline RowScale scale_of(float largest) {
    const int k = min(max(13 - (largest > 0.0F ? ilogbf(largest) : 0), -126), 126);
    return {__uint_as_float(static_cast<std::uint32_t>(k + 127) << 23U),
            __uint_as_float(static_cast<std::uint32_t>(127 - k) << 23U)};
}

// A bound of sums of d products of such values, rounding included.
__device__ inline float largest_sum(std::size_t d) {
    return 0x1.01p28F * static_cast<float>(d);
}

// Two values as two halves each.
struct PairHalves {
    std::uint32_t high;
    std::uint32_t low;
};
__device__ inline std::uint32_t bits_of(__half2 v) {
    std::uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}
__device__ inline PairHalves split_pair(float a, float b) {
    const __half2 high = __floats2half2_rn(a, b);
    const float2 rest = __half22float2(high);
    return {bits_of(high), bits_of(__floats2half2_rn(__fsub_rn(a, rest.x), __fsub_rn(b, rest.y)))};
}

// The columns of a thread: four neighbours in each of kGroups groups of 16.
template <unsigned kGroups>
struct Columns {
    float factor[4 * kGroups];
    float offset[4 * kGroups];
    float bound;  // of a projection, without the factor of its row
    std::size_t first;
    bool whole;  // all columns of the warp exist, and four can be written at once
};
template <FeatureFunction kFunction, unsigned kGroups>
__device__ inline Columns<kGroups> columns_from(std::size_t first, std::size_t d, const FeatureOutput& out,
                                                const float* factors) {
    Columns<kGroups> columns;
    columns.first = first + threadIdx.x % 4 * 4;
    columns.whole = out.vectors && first + 16 * kGroups <= out.m;
#pragma unroll
    for (unsigned g = 0; g < kGroups; ++g) {
        const float4 four = *reinterpret_cast<const float4*>(factors + columns.first + 16 * g);
        columns.factor[4 * g] = four.x;
        columns.factor[4 * g + 1] = four.y;
        columns.factor[4 * g + 2] = four.z;
        columns.factor[4 * g + 3] = four.w;
    }
    columns.bound = 0.0F;
#pragma unroll
    for (unsigned i = 0; i < 4 * kGroups; ++i) {
        const std::size_t column = columns.first + i / 4 * 16 + i % 4;
        columns.bound = fmaxf(columns.bound, largest_sum(d) * columns.factor[i]);
        columns.offset[i] = 0.0F;
        if constexpr (kFunction == FeatureFunction::offset_cos)
            columns.offset[i] = column < out.m ? out.offsets[column] : 0.0F;
    }
    return columns;
}

// One row for a thread.
struct OutputRow {
    float* z;  // its features from the thread's first column on; none: the row does not exist
    float factor;
    float extra;
};

// For groups of four columns that exist as a whole or not at all.
template <unsigned kGroups>
__device__ inline void write_fours(float* z, std::size_t left, const float (&v)[4 * kGroups]) {
#pragma unroll
    for (unsigned g = 0; g < kGroups; ++g) {
        if (16 * g < left)
            __stcs(reinterpret_cast<float4*>(z + 16 * g),
                   make_float4(v[4 * g], v[4 * g + 1], v[4 * g + 2], v[4 * g + 3]));
    }
}
template <unsigned kGroups>
__device__ inline void write_each(float* z, std::size_t left, const float (&v)[4 * kGroups]) {
#pragma unroll
    for (unsigned i = 0; i < 4 * kGroups; ++i) {
        const unsigned column = i / 4 * 16 + i % 4;
        if (column < left) z[column] = v[i];
    }
}

// Features of a row from the sums of products of halves.
template <FeatureFunction kFunction, unsigned kGroups>
__device__ inline void features_from_sums(const FeatureOutput& out, const Columns<kGroups>& columns,
                                          const OutputRow& row, const float (&sums)[4 * kGroups],
                                          float (&first)[4 * kGroups], float (&second)[4 * kGroups]) {
    float u[4 * kGroups];
    float extra[4 * kGroups];
#pragma unroll
    for (unsigned i = 0; i < 4 * kGroups; ++i) {
        u[i] = __fmul_rn(__fmul_rn(sums[i], columns.factor[i]), row.factor);
        extra[i] = row.extra;
    }
    features_of_values<kFunction, false>(u, columns.offset, extra,
                                         {out.scale, out.round, columns.bound * row.factor}, first, second);
}

template <FeatureFunction kFunction, unsigned kGroups>
__device__ inline void write_features(const FeatureOutput& out, const Columns<kGroups>& columns,
                                      const OutputRow& row, const float (&sums)[4 * kGroups]) {
    float first[4 * kGroups];
    float second[4 * kGroups];
    features_from_sums<kFunction, kGroups>(out, columns, row, sums, first, second);
    if (row.z == nullptr || columns.first >= out.m) return;
    const auto write = [&](float* z, const float(&v)[4 * kGroups]) {
        if (columns.whole) return write_fours<kGroups>(z, 16 * kGroups, v);
        if (out.vectors) return write_fours<kGroups>(z, out.m - columns.first, v);
        write_each<kGroups>(z, out.m - columns.first, v);
    };
    write(row.z, first);
    if constexpr (kHasTwo<kFunction>) write(row.z + out.m, second);
}

// Features of rows of up to kMostShort values; x becomes halves inside the kernel.
inline constexpr std::size_t kMostShort = 64;
struct ShortRows {
    InputRows in;
    const uint4* omega = nullptr;  // of split_short_directions
    const float* omega_factors = nullptr;
    FeatureFunction function{};
    bool one_part = false;
    FeatureOutput out;
};
void start_short_rows(const ShortRows& work, int gpu);

// Halves of Ω in the order of the matrix units: per 8 directions and 16 values, a uint4 for each thread of a
// warp.
struct ShortDirections {
    InputRows in;
    std::size_t padded = 0;  // directions, padded with zeros to a multiple of 32
    uint4* halves = nullptr;
    float* factors = nullptr;
};
std::size_t depths_of_short(std::size_t d);  // blocks of 16 values
void split_short_directions(const ShortDirections& work);

// Halves of longer rows in the order of tiles::half_at.
struct LongSplit {
    InputRows in;
    std::size_t padded = 0;  // rows, padded with zeros to a multiple of tiles::kTile
    std::size_t inner = 0;   // values, padded with zeros to a multiple of kInnerUnit
    __half* high = nullptr;
    __half* low = nullptr;  // none for products of one part
    float* factors = nullptr;
    bool directions = false;  // Ω: rows in the order of tiles::direction_at
    bool vectors = false;     // four values can be read at once
    float* extra = nullptr;   // row_value; none for Ω
    FeatureFunction function{};
    FeatureOutput out;
};
inline constexpr std::size_t kInnerUnit = 64;
void split_long_rows(const LongSplit& work);

struct LongRows {
    const __half* x = nullptr;  // high parts; low parts x_low later
    std::size_t x_low = 0;
    const __half* omega = nullptr;
    std::size_t omega_low = 0;
    const float* x_factors = nullptr;
    const float* omega_factors = nullptr;
    const float* extra = nullptr;
    std::size_t rows = 0;
    std::size_t inner = 0;
    unsigned tiles_across = 0;  // of directions
    unsigned tiles = 0;
    FeatureFunction function{};
    bool one_part = false;
    FeatureOutput out;  // z of row 0
};
void start_long_rows(const LongRows& work, int gpu);
// With a multiple of this number of rows, all blocks have the same number of tiles.
std::size_t long_rows_unit(std::size_t tiles_across, int gpu);

std::size_t multiprocessors(int gpu);

}  // namespace imka::ops

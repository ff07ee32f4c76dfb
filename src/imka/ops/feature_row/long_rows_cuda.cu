// Features of rows of more than 64 values with a dense Ω. split_rows turns rows into halves; then each block
// multiplies tiles of 128 rows and 128 directions and applies the functions to the sums in registers. Of
// the two blocks on a multiprocessor, one can multiply while the other writes.
#include <algorithm>
#include <numeric>

#include "imka/cuda/async_copy.cuh"
#include "imka/cuda/matrix_unit.cuh"
#include "imka/cuda/status.hpp"
#include "imka/ops/feature_row/dense_rows.cuh"

namespace imka::ops {
namespace {

using tiles::kTile;

constexpr unsigned kSplitWarps = 8;
constexpr unsigned kBlocks = 2;  // on a multiprocessor
constexpr unsigned kStages = 3;
constexpr unsigned kThreads = 256;                    // two warpgroups of 64 rows
constexpr unsigned kStageBytes = 2 * kTile * 64 * 2;  // of x and Ω: 64 values in one part or 32 in two
constexpr unsigned kDepthBytes = tiles::kDepthHalves * 2;

// A block splits eight rows. A thread has eight neighbouring values of its row, then the eight that are
// kSplitStep later, and so on; a batch has four times eight values.
constexpr std::size_t kSplitStep = 8 * 4 * kSplitWarps;
constexpr std::size_t kBatch = 4 * kSplitStep;
using Batch = float[4][8];

// Values from `d` on are 0.
__device__ inline void load_batch(const float* x, std::size_t k, std::size_t d, bool vectors, Batch& v) {
    if (vectors) {
#pragma unroll
        for (unsigned i = 0; i < 8; ++i) {
            const std::size_t at = k + i / 2 * kSplitStep + i % 2 * 4;
            const float4 four = at < d ? *reinterpret_cast<const float4*>(x + at) : float4{};
            float* to = v[i / 2] + i % 2 * 4;
            to[0] = four.x;
            to[1] = four.y;
            to[2] = four.z;
            to[3] = four.w;
        }
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < 32; ++i) {
        const std::size_t at = k + i / 8 * kSplitStep + i % 8;
        v[i / 8][i % 8] = at < d ? x[at] : 0.0F;
    }
}

__device__ inline bool is_finite(const Batch& v) {
    bool finite = true;
#pragma unroll
    for (unsigned i = 0; i < 32; ++i) finite = finite && isfinite(v[i / 8][i % 8]);
    return finite;
}

__device__ inline void scale_batch(float scale, Batch& v) {
#pragma unroll
    for (unsigned i = 0; i < 32; ++i) v[i / 8][i % 8] = __fmul_rn(scale, v[i / 8][i % 8]);
}

struct RowSums {
    float largest = 0.0F;
    double norm2 = 0.0;
};
__device__ inline void add_batch(const Batch& v, bool norm, RowSums& sums) {
#pragma unroll
    for (unsigned i = 0; i < 32; ++i) sums.largest = fmaxf(sums.largest, fabsf(v[i / 8][i % 8]));
    if (!norm) return;
#pragma unroll
    for (unsigned i = 0; i < 32; ++i) {
        const double value = v[i / 8][i % 8];
        sums.norm2 += value * value;
    }
}

// Sums over the whole row, for all threads that have a part of it.
__device__ inline RowSums sums_of_row(RowSums sums) {
    __shared__ RowSums of_warp[kSplitWarps][8];
    const unsigned row = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 1; i < 4; i *= 2) {
        sums.largest = fmaxf(sums.largest, __shfl_xor_sync(0xffffffffU, sums.largest, i));
        sums.norm2 += __shfl_xor_sync(0xffffffffU, sums.norm2, i);
    }
    if (threadIdx.x % 4 == 0) of_warp[threadIdx.x / 32][row] = sums;
    __syncthreads();
    sums = {};
#pragma unroll
    for (unsigned i = 0; i < kSplitWarps; ++i) {
        sums.largest = fmaxf(sums.largest, of_warp[i][row].largest);
        sums.norm2 += of_warp[i][row].norm2;
    }
    return sums;
}

__device__ inline void write_halves(const LongSplit& w, std::size_t place, std::size_t k, float up,
                                    const Batch& v) {
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) {
        if (k + c * kSplitStep >= w.inner) break;
        PairHalves pairs[4];
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            pairs[i] = split_pair(__fmul_rn(v[c][2 * i], up), __fmul_rn(v[c][2 * i + 1], up));
        const std::size_t at = tiles::half_at(place, k + c * kSplitStep, w.inner);
        __stcg(reinterpret_cast<uint4*>(w.high + at),
               make_uint4(pairs[0].high, pairs[1].high, pairs[2].high, pairs[3].high));
        if (w.low != nullptr)
            __stcg(reinterpret_cast<uint4*>(w.low + at),
                   make_uint4(pairs[0].low, pairs[1].low, pairs[2].low, pairs[3].low));
    }
}

__global__ void __launch_bounds__(kSplitWarps * 32) split_rows(const __grid_constant__ LongSplit w) {
    const std::size_t place = std::size_t{blockIdx.x} * 8 + threadIdx.x % 32 / 4;
    const std::size_t row = w.directions ? tiles::direction_at(static_cast<std::uint32_t>(place)) : place;
    const std::size_t first = 8 * (threadIdx.x / 32 * 4 + threadIdx.x % 4);
    const std::size_t d = row < w.in.rows ? w.in.d : 0;
    const float* x = w.in.x + row * w.in.d;
    Batch v;
    RowSums sums;
    for (std::size_t base = 0; base < w.inner; base += kBatch) {
        load_batch(x, base + first, d, w.vectors, v);
        if (!is_finite(v) && w.in.not_finite != nullptr) {
            for (std::size_t k = 0; k < d; ++k) {
                if (!isfinite(x[k])) report_not_finite(w.in.not_finite, w.in.first_index + row * w.in.d + k);
            }
        }
        scale_batch(w.in.scale, v);
        add_batch(v, w.out.norm_exponent != 0.0, sums);
    }
    sums = sums_of_row(sums);
    const RowScale scale = scale_of(sums.largest);
    for (std::size_t base = 0; base < w.inner; base += kBatch) {
        if (w.inner > kBatch) {  // else v still holds the values
            load_batch(x, base + first, d, w.vectors, v);
            scale_batch(w.in.scale, v);
        }
        write_halves(w, place, base + first, scale.up, v);
    }
    if (threadIdx.x >= 32 || threadIdx.x % 4 != 0) return;
    w.factors[row] = scale.down;
    if (w.extra != nullptr) w.extra[row] = row_value(w.function, w.out, sums.norm2);
}

template <int kParts>
constexpr unsigned kPartBytes = kStageBytes / 2 / kParts;
template <int kParts>
constexpr unsigned kDepths = kPartBytes<kParts> / kDepthBytes;  // products of 16 values in a stage

template <int kParts>
__device__ inline unsigned steps_of(const LongRows& w) {
    return static_cast<unsigned>(w.inner / (16 * kDepths<kParts>));
}

struct TilePlace {
    unsigned rows;  // tile of x
    unsigned directions;
};
__device__ inline TilePlace place_of(const LongRows& w, unsigned tile) {
    return {tile / w.tiles_across, tile % w.tiles_across};
}

// Copies the steps of all tiles of the block to the stages, one after another: x, Ω, and for two parts the
// low parts of x and Ω. All threads call it; each step is one group of copies.
template <int kParts>
struct Loader {
    std::uint32_t stages;
    unsigned tile = blockIdx.x;
    unsigned step = 0;
    unsigned stage = 0;

    __device__ inline void load_next(const LongRows& w) {
        if (tile < w.tiles) {
            constexpr unsigned kBytes = kPartBytes<kParts>;
            const TilePlace place = place_of(w, tile);
            const std::uint32_t to = stages + stage * kStageBytes;
            const std::size_t first = std::size_t{step} * (kBytes / 2);
            copy_part<kBytes>(to, w.x + std::size_t{place.rows} * kTile * w.inner + first, w.x_low);
            copy_part<kBytes>(to + kBytes, w.omega + std::size_t{place.directions} * kTile * w.inner + first,
                              w.omega_low);
            stage = (stage + 1) % kStages;
            if (++step == steps_of<kParts>(w)) {
                step = 0;
                tile += gridDim.x;
            }
        }
        cuda::commit_copies();
    }

private:
    template <unsigned kBytes>
    __device__ static inline void copy_part(std::uint32_t to, const __half* from, std::size_t low) {
#pragma unroll
        for (unsigned i = 0; i < kBytes / 16 / kThreads; ++i) {
            const unsigned chunk = i * kThreads + threadIdx.x;
            cuda::copy_chunk(to + chunk * 16, from + chunk * 8);
            if constexpr (kParts == 2) cuda::copy_chunk(to + 2 * kBytes + chunk * 16, from + low + chunk * 8);
        }
    }
};

// Sums of a warpgroup: a warp has 16 rows, a thread columns 2 q and 2 q + 1 of 16 products of 8 directions.
using Sums = float[16][4];

#if IMKA_WARPGROUP_PRODUCTS
// `x`: the 64 rows of the warpgroup in 16 values of x.
__device__ inline void start_product(std::uint32_t x, std::uint32_t omega, bool add, Sums& sums) {
    cuda::start_halves(cuda::pieces_at(x / 16), cuda::pieces_at(omega / 16), add, sums);
}
__device__ inline void begin_step() {
    cuda::begin_products();
}
__device__ inline void wait_for_steps() {
    cuda::finish_products();
}
__device__ inline void keep_sums(Sums& sums) {
    cuda::keep(sums);
}
#else
__device__ inline void start_product(std::uint32_t x, std::uint32_t omega, bool add, Sums& sums) {
    x += threadIdx.x / 32 % 4 * 512 + threadIdx.x % 32 * 4;  // a word of each piece
    omega += threadIdx.x % 32 * 4;
    const uint4 a =
        make_uint4(cuda::word_at(x), cuda::word_at(x + 256), cuda::word_at(x + 128), cuda::word_at(x + 384));
#pragma unroll
    for (unsigned t = 0; t < 16; ++t) {
        if (!add) sums[t][0] = sums[t][1] = sums[t][2] = sums[t][3] = 0.0F;
        cuda::multiply_halves(a, cuda::word_at(omega + t * 256), cuda::word_at(omega + t * 256 + 128),
                              sums[t]);
    }
}
__device__ inline void begin_step() {}
__device__ inline void wait_for_steps() {}
__device__ inline void keep_sums(Sums&) {}
#endif

template <int kParts>
__device__ inline void multiply_step(std::uint32_t stage, bool add, Sums& sums) {
    const std::uint32_t rows = threadIdx.x / 128 * (kDepthBytes / 2);
    constexpr std::uint32_t kOmega = kPartBytes<kParts>;
    constexpr std::uint32_t kLow = 2 * kPartBytes<kParts>;
    begin_step();
#pragma unroll
    for (unsigned depth = 0; depth < kDepths<kParts>; ++depth) {
        const std::uint32_t x = stage + depth * kDepthBytes + rows;
        const std::uint32_t omega = stage + depth * kDepthBytes + kOmega;
        if constexpr (kParts == 2) {
            // Small terms first.
            start_product(x + kLow, omega, add || depth > 0, sums);
            start_product(x, omega + kLow, true, sums);
            start_product(x, omega, true, sums);
        } else {
            start_product(x, omega, add || depth > 0, sums);
        }
    }
}

template <FeatureFunction kFunction>
__device__ inline void write_tile(const LongRows& w, const TilePlace& place, const Sums& sums) {
    const unsigned lane = threadIdx.x % 32;
    const std::size_t first_row = std::size_t{place.rows} * kTile + threadIdx.x / 32 * 16 + lane / 4;
    OutputRow rows[2];
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
        const std::size_t row = first_row + 8 * h;
        rows[h] = {row < w.rows ? w.out.z + row * w.out.stride : nullptr, w.x_factors[row], w.extra[row]};
    }
#pragma unroll
    for (unsigned j = 0; j < 16; j += 4) {
        const std::size_t direction = std::size_t{place.directions} * kTile + 8 * j;
        if (direction >= w.out.m) break;
        const auto columns = columns_from<kFunction, 2>(direction, w.inner, w.out, w.omega_factors);
#pragma unroll
        for (unsigned h = 0; h < 2; ++h) {
            float of_row[8];
#pragma unroll
            for (unsigned c = 0; c < 8; ++c) of_row[c] = sums[j + c / 2][2 * h + c % 2];
            OutputRow row = rows[h];
            if (row.z != nullptr) row.z += columns.first;
            write_features<kFunction, 2>(w.out, columns, row, of_row);
        }
    }
}

template <FeatureFunction kFunction, int kParts>
__global__ void __launch_bounds__(kThreads, kBlocks) long_rows(const __grid_constant__ LongRows w) {
    extern __shared__ __align__(128) unsigned char memory[];
    const auto stages = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
    Loader<kParts> loader{stages};
    for (unsigned i = 0; i < kStages - 1; ++i) loader.load_next(w);
    unsigned stage = 0;
    for (unsigned tile = blockIdx.x; tile < w.tiles; tile += gridDim.x) {
        Sums sums;
        for (unsigned s = 0; s < steps_of<kParts>(w); ++s) {
            cuda::wait_for_copies<kStages - 2>();
            cuda::show_copies_to_products();
            __syncthreads();  // the step has arrived, and all threads are done with the previous one
            loader.load_next(w);
            multiply_step<kParts>(stages + stage * kStageBytes, s > 0, sums);
            wait_for_steps();
            stage = (stage + 1) % kStages;
        }
        keep_sums(sums);
        write_tile<kFunction>(w, place_of(w, tile), sums);
    }
}

template <FeatureFunction kFunction, int kParts>
void start(const LongRows& work, int gpu) {
    constexpr unsigned kBytes = kStages * kStageBytes;
    const auto kernel = long_rows<kFunction, kParts>;
    cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                "preparing the kernel for features");
    const auto blocks = std::min(work.tiles, static_cast<unsigned>(multiprocessors(gpu)) * kBlocks);
    kernel<<<blocks, kThreads, kBytes>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel for features");
}

}  // namespace

std::size_t long_rows_unit(std::size_t tiles_across, int gpu) {
    const std::size_t at_once = multiprocessors(gpu) * kBlocks;
    return at_once / std::gcd(at_once, tiles_across) * kTile;
}

void split_long_rows(const LongSplit& work) {
    split_rows<<<static_cast<unsigned>(work.padded / 8), kSplitWarps * 32>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel that splits rows");
}

void start_long_rows(const LongRows& work, int gpu) {
    with_function(work.function, [&]<FeatureFunction kFunction>() {
        if (work.one_part) return start<kFunction, 1>(work, gpu);
        start<kFunction, 2>(work, gpu);
    });
}

}  // namespace imka::ops

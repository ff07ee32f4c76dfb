// Features of rows of up to 64 values with a dense Ω. A block keeps its directions of Ω in shared memory and
// goes through the rows: each warp has some of the directions. One more warp makes halves of x in shared
// memory, a few tiles ahead. Tiles have few rows, and no warp is far ahead of the others: so the block writes
// whole rows of features at about the same time, for which GPU memory is fastest.
#include <algorithm>

#include "imka/cuda/async_copy.cuh"
#include "imka/cuda/barrier.cuh"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/matrix_unit.cuh"
#include "imka/cuda/status.hpp"
#include "imka/ops/feature_row/dense_rows.cuh"

namespace imka::ops {
namespace {

constexpr unsigned kMostWarps = 23;  // with directions; 80 registers per thread
constexpr unsigned kTileRows = 16;
constexpr unsigned kRing = 3;  // tiles in shared memory

// A warp's directions, in groups of 16: fewer where rows are longer, for the same shared memory.
template <unsigned kDepths>
constexpr unsigned kGroups = 4 / kDepths;
constexpr unsigned kWarpChunk = 32 * sizeof(uint4);
constexpr unsigned kOmegaBytes = 8 * kWarpChunk;  // of a warp

// A row by four neighbouring threads; tiles::value_of_thread says who has which value.
template <unsigned kDepths>
using Values = float[kDepths][4];
template <unsigned kDepths>
__device__ inline void load_row(const InputRows& in, std::size_t row, Values<kDepths>& v) {
    const float* x = in.x + row * in.d;
#pragma unroll
    for (unsigned i = 0; i < 4 * kDepths; ++i) {
        const unsigned k = i / 4 * 16 + tiles::value_of_thread(threadIdx.x % 4, i % 4);
        v[i / 4][i % 4] = row < in.rows && k < in.d ? x[k] : 0.0F;
    }
}

// Scales a row, and reports what is not finite.
template <unsigned kDepths>
__device__ inline void scale_row(const InputRows& in, std::size_t row, Values<kDepths>& v) {
    bool finite = true;
#pragma unroll
    for (unsigned i = 0; i < 4 * kDepths; ++i) finite = finite && isfinite(v[i / 4][i % 4]);
    if (!finite && in.not_finite != nullptr) {
#pragma unroll
        for (unsigned i = 0; i < 4 * kDepths; ++i) {
            const unsigned k = i / 4 * 16 + tiles::value_of_thread(threadIdx.x % 4, i % 4);
            if (!isfinite(v[i / 4][i % 4])) report_not_finite(in.not_finite, in.first_index + row * in.d + k);
        }
    }
#pragma unroll
    for (unsigned i = 0; i < 4 * kDepths; ++i) v[i / 4][i % 4] = __fmul_rn(in.scale, v[i / 4][i % 4]);
}

// |row|² in all four threads.
template <unsigned kDepths>
__device__ inline double squared_norm(const Values<kDepths>& v) {
    double sum = 0.0;
#pragma unroll
    for (unsigned i = 0; i < 4 * kDepths; ++i) {
        const double value = v[i / 4][i % 4];
        sum += value * value;
    }
    sum += __shfl_xor_sync(0xffffffffU, sum, 1);
    return sum + __shfl_xor_sync(0xffffffffU, sum, 2);
}

template <unsigned kDepths>
struct RowHalves {
    PairHalves pairs[kDepths][2];
    float factor;
};
// All threads of a warp call it.
template <unsigned kDepths>
__device__ inline RowHalves<kDepths> halves_of(const Values<kDepths>& v) {
    float largest = 0.0F;
#pragma unroll
    for (unsigned i = 0; i < 4 * kDepths; ++i) largest = fmaxf(largest, fabsf(v[i / 4][i % 4]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
    const RowScale scale = scale_of(largest);
    RowHalves<kDepths> halves;
    halves.factor = scale.down;
#pragma unroll
    for (unsigned i = 0; i < 2 * kDepths; ++i) {
        const float* pair = v[i / 2] + i % 2 * 2;
        halves.pairs[i / 2][i % 2] = split_pair(__fmul_rn(pair[0], scale.up), __fmul_rn(pair[1], scale.up));
    }
    return halves;
}

// A warp per 8 directions.
template <unsigned kDepths>
__global__ void split_directions(const __grid_constant__ ShortDirections w) {
    const unsigned lane = threadIdx.x;
    const std::size_t direction = tiles::direction_at(blockIdx.x * 8 + lane / 4);
    Values<kDepths> v;
    load_row<kDepths>(w.in, direction, v);
    const auto halves = halves_of<kDepths>(v);
    if (lane % 4 == 0) w.factors[direction] = halves.factor;
#pragma unroll
    for (unsigned s = 0; s < kDepths; ++s) {
        const PairHalves(&pairs)[2] = halves.pairs[s];
        w.halves[tiles::short_place(blockIdx.x, s, kDepths) * 32 + lane] =
            make_uint4(pairs[0].high, pairs[1].high, pairs[0].low, pairs[1].low);
    }
}

// A tile of x for the products, in shared memory.
template <unsigned kDepths>
struct Tile {
    uint4 high[kDepths][32];
    uint4 low[kDepths][32];
    float2 rows[kTileRows];  // factor, extra
    cuda::Barrier full;      // by the threads that split x
    cuda::Barrier empty;     // by those with directions
};

// The tiles of a block, one after another in the ring.
class Place {
public:
    __device__ unsigned slot() const { return slot_; }
    __device__ unsigned parity() const { return parity_; }
    __device__ void advance() {
        if (++slot_ < kRing) return;
        slot_ = 0;
        parity_ ^= 1U;
    }

private:
    unsigned slot_ = 0;
    unsigned parity_ = 0;  // of the rounds so far
};

// Rows from `first_row` on, by a warp.
template <unsigned kDepths, int kParts>
__device__ inline void split_tile(const ShortRows& w, std::size_t first_row, Tile<kDepths>& tile) {
    const unsigned lane = threadIdx.x % 32;
    Values<kDepths> v[2];
    RowHalves<kDepths> halves[2];
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) load_row<kDepths>(w.in, first_row + 8 * h + lane / 4, v[h]);
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
        const unsigned row = 8 * h + lane / 4;
        scale_row<kDepths>(w.in, first_row + row, v[h]);
        halves[h] = halves_of<kDepths>(v[h]);
        const double norm2 = w.out.norm_exponent != 0.0 ? squared_norm<kDepths>(v[h]) : 0.0;
        if (lane % 4 == 0)
            tile.rows[row] = make_float2(halves[h].factor, row_value(w.function, w.out, norm2));
    }
#pragma unroll
    for (unsigned s = 0; s < kDepths; ++s) {
        const PairHalves(&a)[2] = halves[0].pairs[s];
        const PairHalves(&b)[2] = halves[1].pairs[s];
        tile.high[s][lane] = make_uint4(a[0].high, b[0].high, a[1].high, b[1].high);
        if constexpr (kParts == 2) tile.low[s][lane] = make_uint4(a[0].low, b[0].low, a[1].low, b[1].low);
    }
}

// Volatile: Ω does not fit into registers.
__device__ inline uint4 load_chunk(std::uint32_t address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address));
    return v;
}

// `omega`: the thread's halves of the warp's directions.
template <unsigned kDepths, int kParts>
__device__ inline void multiply(const Tile<kDepths>& tile, std::uint32_t omega,
                                float (&sums)[2 * kGroups<kDepths>][4]) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned s = 0; s < kDepths; ++s) {
        const uint4 high = tile.high[s][lane];
        uint4 low{};
        if constexpr (kParts == 2) low = tile.low[s][lane];
#pragma unroll
        for (unsigned t = 0; t < 2 * kGroups<kDepths>; ++t) {
            const auto place = static_cast<std::uint32_t>(tiles::short_place(t, s, kDepths));
            const uint4 b = load_chunk(omega + place * kWarpChunk);
            if constexpr (kParts == 2) {
                // Small terms first.
                cuda::multiply_halves(low, b.x, b.y, sums[t]);
                cuda::multiply_halves(high, b.z, b.w, sums[t]);
            }
            cuda::multiply_halves(high, b.x, b.y, sums[t]);
        }
    }
}

// kWhole: all rows of the tile exist, and columns.whole; `rows`: those of the tile and after it; z: of the
// thread's first row, from its first column on.
template <FeatureFunction kFunction, int kParts, unsigned kDepths, bool kWhole>
__device__ inline void write_tile(const ShortRows& w, const Tile<kDepths>& tile, std::size_t rows,
                                  const Columns<kGroups<kDepths>>& columns, std::uint32_t omega, float* z) {
    constexpr unsigned kAcross = kGroups<kDepths>;
    float sums[2 * kAcross][4] = {};
    multiply<kDepths, kParts>(tile, omega, sums);
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
        const unsigned row = 8 * h + threadIdx.x % 32 / 4;
        const float2 values = tile.rows[row];
        float of_row[4 * kAcross];
#pragma unroll
        for (unsigned c = 0; c < 4 * kAcross; ++c) of_row[c] = sums[c / 2][2 * h + c % 2];
        const bool exists = kWhole || row < rows;
        const OutputRow to{exists ? z + 8 * h * w.out.stride : nullptr, values.x, values.y};
        write_features<kFunction, kAcross, kWhole>(w.out, columns, to, of_row);
    }
}

// All tiles of a block, by the warp that splits x.
template <unsigned kDepths, int kParts>
__device__ inline void split_tiles(const ShortRows& w, std::size_t tiles_down, Tile<kDepths> (&ring)[kRing]) {
    Place place;
    for (std::size_t t = blockIdx.y; t < tiles_down; t += gridDim.y) {
        auto& tile = ring[place.slot()];
        tile.empty.wait(place.parity() ^ 1U);
        split_tile<kDepths, kParts>(w, t * kTileRows, tile);
        tile.full.arrive();
        place.advance();
    }
}

// All tiles of a block, by warp `warp` with directions.
template <FeatureFunction kFunction, int kParts, unsigned kDepths>
__device__ inline void write_tiles(const ShortRows& w, std::size_t tiles_down, Tile<kDepths> (&ring)[kRing],
                                   unsigned char* omegas, unsigned warp, unsigned warps) {
    constexpr unsigned kAcross = kGroups<kDepths>;
    const unsigned lane = threadIdx.x % 32;
    const std::size_t group = std::size_t{blockIdx.x * warps + warp} * kAcross;
    const bool active = group * 16 < w.out.m;
    const std::uint32_t omega = cuda::shared_address(omegas) + warp * kOmegaBytes + lane * 16;
    Columns<kAcross> columns{};
    if (active) {
        columns = columns_from<kFunction, kAcross>(group * 16, w.in.d, w.out, w.omega_factors);
        const uint4* from = w.omega + tiles::short_place(2 * group, 0, kDepths) * 32 + lane;
        // A thread reads only what it copied itself.
#pragma unroll
        for (unsigned i = 0; i < kOmegaBytes / kWarpChunk; ++i)
            cuda::copy_chunk(omega + i * kWarpChunk, from + i * 32);
        cuda::commit_copies();
        cuda::wait_for_copies<0>();
    }
    Place place;
    for (std::size_t t = blockIdx.y; t < tiles_down; t += gridDim.y) {
        auto& tile = ring[place.slot()];
        tile.full.wait(place.parity());
        const std::size_t first = t * kTileRows;
        const std::size_t rows = w.in.rows - first;
        float* z = w.out.z + (first + lane / 4) * w.out.stride + columns.first;
        if (columns.whole && rows >= kTileRows) {
            write_tile<kFunction, kParts, kDepths, true>(w, tile, rows, columns, omega, z);
        } else if (active) {
            write_tile<kFunction, kParts, kDepths, false>(w, tile, rows, columns, omega, z);
        }
        tile.empty.arrive();
        place.advance();
    }
}

template <FeatureFunction kFunction, int kParts, unsigned kDepths>
__global__ void __launch_bounds__((kMostWarps + 1) * 32, 1) short_rows(const __grid_constant__ ShortRows w) {
    extern __shared__ __align__(16) unsigned char omegas[];
    __shared__ Tile<kDepths> ring[kRing];
    const unsigned warp = threadIdx.x / 32;
    const unsigned warps = blockDim.x / 32 - 1;
    if (threadIdx.x == 0) {
        for (auto& tile : ring) {
            tile.full.start(32);
            tile.empty.start(32 * warps);
        }
    }
    __syncthreads();
    const std::size_t tiles_down = (w.in.rows + kTileRows - 1) / kTileRows;
    if (warp == warps) {
        split_tiles<kDepths, kParts>(w, tiles_down, ring);
    } else {
        write_tiles<kFunction, kParts, kDepths>(w, tiles_down, ring, omegas, warp, warps);
    }
}

template <FeatureFunction kFunction, int kParts, unsigned kDepths>
void start(const ShortRows& work, int gpu) {
    const auto kernel = short_rows<kFunction, kParts, kDepths>;
    constexpr std::size_t kWarpDirections = 16 * kGroups<kDepths>;
    const std::size_t needed = (work.out.m + kWarpDirections - 1) / kWarpDirections;
    const std::size_t across = (needed + kMostWarps - 1) / kMostWarps;
    const auto warps = static_cast<unsigned>((needed + across - 1) / across);
    const unsigned threads = 32 * (warps + 1);
    const unsigned bytes = warps * kOmegaBytes;
    cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(kMostWarps * kOmegaBytes)),
                "preparing the kernel for features");
    int blocks = 0;
    cuda::check(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads), bytes),
        "asking how many blocks fit");
    const std::size_t tiles_down = (work.in.rows + kTileRows - 1) / kTileRows;
    const std::size_t at_once = multiprocessors(gpu) * static_cast<std::size_t>(blocks);
    const std::size_t down = std::clamp<std::size_t>(at_once / across, 1, tiles_down);
    kernel<<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), threads, bytes>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel for features");
}

}  // namespace

std::size_t depths_of_short(std::size_t d) {
    return d <= 32 ? 2 : 4;
}

void split_short_directions(const ShortDirections& work) {
    const auto blocks = static_cast<unsigned>(work.padded / 8);
    if (depths_of_short(work.in.d) == 2) {
        split_directions<2><<<blocks, 32>>>(work);
    } else {
        split_directions<4><<<blocks, 32>>>(work);
    }
    cuda::check(cudaGetLastError(), "starting the kernel that splits directions");
}

void start_short_rows(const ShortRows& work, int gpu) {
    with_function(work.function, [&]<FeatureFunction kFunction>() {
        if (depths_of_short(work.in.d) == 2) {
            if (work.one_part) return start<kFunction, 1, 2>(work, gpu);
            return start<kFunction, 2, 2>(work, gpu);
        }
        if (work.one_part) return start<kFunction, 1, 4>(work, gpu);
        start<kFunction, 2, 4>(work, gpu);
    });
}

}  // namespace imka::ops

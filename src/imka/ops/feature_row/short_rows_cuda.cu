// Features of rows of up to 64 values with a dense Ω. A block keeps its directions of Ω in shared memory and
// goes through the rows: each warp has some of the directions. One more warp makes halves of x in shared
// memory, a few tiles ahead. Features are written through shared memory, by copies that no thread waits for.
// All blocks take the tiles in order and therefore write close to each other, which is fastest for GPU
// memory.
#include <algorithm>

#include "imka/cuda/async_copy.cuh"
#include "imka/cuda/barrier.cuh"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/matrix_unit.cuh"
#include "imka/cuda/memory.hpp"
#include "imka/cuda/status.hpp"
#include "imka/cuda/tile_store.cuh"
#include "imka/ops/feature_row/dense_rows.cuh"

namespace imka::ops {
namespace {

constexpr unsigned kMostWarps = 23;  // with directions; 80 registers per thread
constexpr unsigned kTileRows = 16;
constexpr unsigned kRing = 3;     // tiles of halves in shared memory
constexpr unsigned kFetched = 4;  // tiles of x on their way to shared memory

// A warp's directions, in groups of 16: fewer where rows are longer, for the same shared memory.
template <unsigned kDepths>
constexpr unsigned kGroups = 4 / kDepths;
constexpr unsigned kWarpChunk = 32 * sizeof(uint4);
constexpr unsigned kOmegaBytes = 8 * kWarpChunk;  // of a warp

// A row by four neighbouring threads; tiles::value_of_thread maps threads to values.
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

// Scales a row, and reports values that are not finite.
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

// A tile of x as loaded.
template <unsigned kDepths>
struct Fetched {
    float x[kTileRows * 16 * kDepths];
    unsigned index;
};

// A tile of x for the products, in shared memory.
template <unsigned kDepths>
struct Tile {
    uint4 high[kDepths][32];
    uint4 low[kDepths][32];
    float2 rows[kTileRows];  // factor, extra
    unsigned index;          // from 0; beyond the last tile: the end
    cuda::Barrier full;      // by the threads that split x
    cuda::Barrier empty;     // by those with directions
};

// Position of the next tile in a ring of kSlots.
template <unsigned kSlots>
class Place {
public:
    __device__ unsigned slot() const { return slot_; }
    __device__ unsigned parity() const { return parity_; }
    __device__ void advance() {
        if (++slot_ < kSlots) return;
        slot_ = 0;
        parity_ ^= 1U;
    }

private:
    unsigned slot_ = 0;
    unsigned parity_ = 0;  // of the rounds so far
};

// Order in which a block takes tiles. A block with all directions takes the next free tile. A block with some
// of the directions takes every gridDim.y-th tile, so that the blocks of a tile write at about the same time.
class TileOrder {
public:
    // `taken`: number of tiles taken by all blocks, 0 at first; none: every gridDim.y-th tile.
    __device__ explicit TileOrder(unsigned* taken) : taken_(taken), next_(blockIdx.y) {
        if (taken_ != nullptr) take();
    }
    // All threads of a warp call it.
    __device__ unsigned next() {
        const unsigned tile = __shfl_sync(0xffffffffU, next_, 0);
        if (taken_ != nullptr) {
            take();
        } else {
            next_ += gridDim.y;
        }
        return tile;
    }

private:
    __device__ void take() {
        if (threadIdx.x % 32 == 0) next_ = atomicAdd(taken_, 1U);
    }

    unsigned* taken_;
    unsigned next_;  // requested one tile ahead
};

// The row, out of eight, of the lane in the products: rows of neighbouring lanes are in different banks of
// the stored pieces.
template <unsigned kDepths>
__device__ inline unsigned row_of_lane() {
    const unsigned i = threadIdx.x % 32 / 4;
    return kGroups<kDepths> == 2 ? i / 2 + i % 2 * 4 : i;
}

// Starts to copy a tile of x, by a warp; rows that do not exist are zeros.
template <unsigned kDepths>
__device__ inline void fetch_tile(const InputRows& in, unsigned index, std::size_t tiles_down,
                                  Fetched<kDepths>& to) {
    const unsigned lane = threadIdx.x % 32;
    if (lane == 0) to.index = index;
    if (index < tiles_down) {
        const auto values = static_cast<unsigned>(kTileRows * in.d);
        const std::size_t first = std::size_t{index} * values;
        const std::size_t left = in.rows * in.d - first;
        const std::uint32_t place = cuda::shared_address(to.x);
        for (unsigned i = lane; i < values; i += 32) {
            const bool exists = i < left;
            cuda::copy_float(place + i * sizeof(float), in.x + first + (exists ? i : 0), exists);
        }
    }
    cuda::commit_copies();
}

// Called by a whole warp.
template <unsigned kDepths, int kParts>
__device__ inline void split_tile(const ShortRows& w, const Fetched<kDepths>& from, Tile<kDepths>& tile) {
    const unsigned lane = threadIdx.x % 32;
    const auto d = static_cast<unsigned>(w.in.d);
    const std::size_t first_row = std::size_t{from.index} * kTileRows;
    RowHalves<kDepths> halves[2];
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
        const unsigned row = 8 * h + row_of_lane<kDepths>();
        Values<kDepths> v;
#pragma unroll
        for (unsigned i = 0; i < 4 * kDepths; ++i) {
            const unsigned k = i / 4 * 16 + tiles::value_of_thread(lane % 4, i % 4);
            v[i / 4][i % 4] = k < d ? from.x[row * d + k] : 0.0F;
        }
        scale_row<kDepths>(w.in, first_row + row, v);
        halves[h] = halves_of<kDepths>(v);
        const double norm2 = w.out.norm_exponent != 0.0 ? squared_norm<kDepths>(v) : 0.0;
        if (lane % 4 == 0)
            tile.rows[8 * h + lane / 4] = make_float2(halves[h].factor, row_value(w.function, w.out, norm2));
    }
#pragma unroll
    for (unsigned s = 0; s < kDepths; ++s) {
        const PairHalves(&a)[2] = halves[0].pairs[s];
        const PairHalves(&b)[2] = halves[1].pairs[s];
        tile.high[s][lane] = make_uint4(a[0].high, b[0].high, a[1].high, b[1].high);
        if constexpr (kParts == 2) tile.low[s][lane] = make_uint4(a[0].low, b[0].low, a[1].low, b[1].low);
    }
}

// Descriptions of the feature matrices for the copy engine, which numbers rows with 31 bits.
struct FeatureMaps {
    bool exist = false;
    CUtensorMap first;
    CUtensorMap second;
};
constexpr std::size_t kMostStoredRows = std::size_t{1} << 31U;

// Volatile, because Ω does not fit into registers.
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

// A tile of a warp's features in shared memory, for each of the two functions.
template <unsigned kDepths>
constexpr unsigned kPieceBytes = kTileRows * 64 * kGroups<kDepths>;
template <FeatureFunction kFunction, unsigned kDepths>
constexpr unsigned kPiecesBytes = (kHasTwo<kFunction> ? 2 : 1) * kPieceBytes<kDepths>;

template <unsigned kDepths>
__device__ inline void put_row(std::uint32_t piece, unsigned row, const float (&v)[4 * kGroups<kDepths>]) {
    constexpr unsigned kChunks = 4 * kGroups<kDepths>;
#pragma unroll
    for (unsigned g = 0; g < kGroups<kDepths>; ++g) {
        const unsigned chunk = cuda::stored_chunk<kChunks>(row, 4 * g + threadIdx.x % 4);
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(piece + (row * kChunks + chunk) * 16),
                     "f"(v[4 * g]), "f"(v[4 * g + 1]), "f"(v[4 * g + 2]), "f"(v[4 * g + 3])
                     : "memory");
    }
}

// The sums of row 8 h + lane / 4 of the products.
template <unsigned kAcross>
__device__ inline void sums_of_row(const float (&sums)[2 * kAcross][4], unsigned h,
                                   float (&of_row)[4 * kAcross]) {
#pragma unroll
    for (unsigned c = 0; c < 4 * kAcross; ++c) of_row[c] = sums[c / 2][2 * h + c % 2];
}

// Multiplies and stores a tile; all its rows exist, and columns.whole is true. The copies of the previous
// tile have the time of the product to finish.
template <FeatureFunction kFunction, int kParts, unsigned kDepths>
__device__ inline void store_tile(const ShortRows& w, const FeatureMaps& maps, const Tile<kDepths>& tile,
                                  const Columns<kGroups<kDepths>>& columns, std::uint32_t omega,
                                  std::uint32_t pieces) {
    constexpr unsigned kAcross = kGroups<kDepths>;
    const unsigned lane = threadIdx.x % 32;
    float sums[2 * kAcross][4] = {};
    multiply<kDepths, kParts>(tile, omega, sums);
    if (lane == 0) cuda::wait_for_stored_tiles();
    __syncwarp();
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
        const float2 values = tile.rows[8 * h + lane / 4];
        float of_row[4 * kAcross];
        sums_of_row<kAcross>(sums, h, of_row);
        float first[4 * kAcross];
        float second[4 * kAcross];
        features_from_sums<kFunction, kAcross>(w.out, columns, {nullptr, values.x, values.y}, of_row, first,
                                               second);
        const unsigned row = 8 * h + row_of_lane<kDepths>();
        put_row<kDepths>(pieces, row, first);
        if constexpr (kHasTwo<kFunction>) put_row<kDepths>(pieces + kPieceBytes<kDepths>, row, second);
    }
    cuda::show_tile_to_copies();
    __syncwarp();
    if (lane == 0) {
        const std::uint32_t row = tile.index * kTileRows;
        const auto col = static_cast<std::uint32_t>(columns.first);
        cuda::store_tile(maps.first, pieces, row, col);
        if constexpr (kHasTwo<kFunction>)
            cuda::store_tile(maps.second, pieces + kPieceBytes<kDepths>, row, col);
        cuda::commit_stored_tiles();
    }
}

template <FeatureFunction kFunction, int kParts, unsigned kDepths>
__device__ inline void write_tile(const ShortRows& w, const Tile<kDepths>& tile,
                                  const Columns<kGroups<kDepths>>& columns, std::uint32_t omega) {
    constexpr unsigned kAcross = kGroups<kDepths>;
    float sums[2 * kAcross][4] = {};
    multiply<kDepths, kParts>(tile, omega, sums);
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
        const float2 values = tile.rows[8 * h + threadIdx.x % 32 / 4];
        const std::size_t row = std::size_t{tile.index} * kTileRows + 8 * h + row_of_lane<kDepths>();
        float of_row[4 * kAcross];
        sums_of_row<kAcross>(sums, h, of_row);
        float* z = row < w.in.rows ? w.out.z + row * w.out.stride + columns.first : nullptr;
        write_features<kFunction, kAcross>(w.out, columns, {z, values.x, values.y}, of_row);
    }
}

// All tiles of a block, by the warp that splits x.
template <unsigned kDepths, int kParts>
__device__ inline void split_tiles(const ShortRows& w, unsigned* taken, std::size_t tiles_down,
                                   Fetched<kDepths> (&fetched)[kFetched], Tile<kDepths> (&ring)[kRing]) {
    TileOrder order(taken);
    for (auto& next : fetched) fetch_tile<kDepths>(w.in, order.next(), tiles_down, next);
    Place<kFetched> from;
    Place<kRing> to;
    for (;;) {
        auto& raw = fetched[from.slot()];
        auto& tile = ring[to.slot()];
        cuda::wait_for_copies<kFetched - 1>();
        __syncwarp();
        const unsigned index = raw.index;
        tile.empty.wait(to.parity() ^ 1U);
        if (threadIdx.x % 32 == 0) tile.index = index;
        if (index < tiles_down) split_tile<kDepths, kParts>(w, raw, tile);
        tile.full.arrive();
        if (index >= tiles_down) return;
        __syncwarp();
        fetch_tile<kDepths>(w.in, order.next(), tiles_down, raw);
        from.advance();
        to.advance();
    }
}

// All tiles of a block, by warp `warp` with directions.
template <FeatureFunction kFunction, int kParts, unsigned kDepths>
__device__ inline void write_tiles(const ShortRows& w, const FeatureMaps& maps, std::size_t tiles_down,
                                   Tile<kDepths> (&ring)[kRing], std::uint32_t memory, unsigned warp,
                                   unsigned warps) {
    constexpr unsigned kAcross = kGroups<kDepths>;
    constexpr unsigned kPieces = kPiecesBytes<kFunction, kDepths>;
    const unsigned lane = threadIdx.x % 32;
    const std::size_t group = std::size_t{blockIdx.x * warps + warp} * kAcross;
    const bool active = group * 16 < w.out.m;
    const std::uint32_t pieces = memory + warp * kPieces;
    const std::uint32_t omega = memory + warps * kPieces + warp * kOmegaBytes + lane * 16;
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
    const bool stores = maps.exist && columns.whole;
    Place<kRing> place;
    for (;;) {
        auto& tile = ring[place.slot()];
        tile.full.wait(place.parity());
        if (tile.index >= tiles_down) break;
        if (stores && (tile.index + std::size_t{1}) * kTileRows <= w.in.rows) {
            store_tile<kFunction, kParts, kDepths>(w, maps, tile, columns, omega, pieces);
        } else if (active) {
            write_tile<kFunction, kParts, kDepths>(w, tile, columns, omega);
        }
        tile.empty.arrive();
        place.advance();
    }
    if (stores && lane == 0) cuda::wait_for_stored_tiles();
}

template <FeatureFunction kFunction, int kParts, unsigned kDepths>
__global__ void __launch_bounds__((kMostWarps + 1) * 32, 1)
    short_rows(const __grid_constant__ ShortRows w, const __grid_constant__ FeatureMaps maps,
               unsigned* taken) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ Fetched<kDepths> fetched[kFetched];
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
        split_tiles<kDepths, kParts>(w, taken, tiles_down, fetched, ring);
    } else {
        write_tiles<kFunction, kParts, kDepths>(w, maps, tiles_down, ring, cuda::shared_address(memory), warp,
                                                warps);
    }
}

// No maps if the copy engine cannot write the features.
template <FeatureFunction kFunction, unsigned kDepths>
FeatureMaps feature_maps(const ShortRows& work, const void* kernel) {
    FeatureMaps maps{};
    const auto& out = work.out;
    if (!out.vectors || work.in.rows > kMostStoredRows || !cuda::stores_tiles(kernel)) return maps;
    const auto map_at = [&](float* z) {
        return cuda::stored_tiles({z, work.in.rows, out.m, out.stride}, kTileRows, 16 * kGroups<kDepths>);
    };
    maps.exist = true;
    maps.first = map_at(out.z);
    if constexpr (kHasTwo<kFunction>) maps.second = map_at(out.z + out.m);
    return maps;
}

// Warps with directions that fit into the shared memory of a block: all on Hopper, fewer on smaller GPUs.
std::size_t most_warps(const void* kernel, unsigned warp_bytes, int gpu) {
    int memory = 0;
    cuda::check(cudaDeviceGetAttribute(&memory, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu),
                "querying the shared memory of the GPU");
    cudaFuncAttributes used{};
    cuda::check(cudaFuncGetAttributes(&used, kernel), "querying the memory of the feature kernel");
    const std::size_t left = static_cast<std::size_t>(memory) - used.sharedSizeBytes;
    return std::clamp<std::size_t>(left / warp_bytes, 1, kMostWarps);
}

template <FeatureFunction kFunction, int kParts, unsigned kDepths>
void start(const ShortRows& work, int gpu) {
    const auto kernel = short_rows<kFunction, kParts, kDepths>;
    constexpr std::size_t kWarpDirections = 16 * kGroups<kDepths>;
    constexpr unsigned kWarpBytes = kPiecesBytes<kFunction, kDepths> + kOmegaBytes;
    const std::size_t most = most_warps(reinterpret_cast<const void*>(kernel), kWarpBytes, gpu);
    const std::size_t needed = (work.out.m + kWarpDirections - 1) / kWarpDirections;
    const std::size_t across = (needed + most - 1) / most;
    const auto warps = static_cast<unsigned>((needed + across - 1) / across);
    const unsigned threads = 32 * (warps + 1);
    const unsigned bytes = warps * kWarpBytes;
    cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(most * kWarpBytes)),
                "preparing the kernel for features");
    int blocks = 0;
    cuda::check(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads), bytes),
        "querying the occupancy of the feature kernel");
    const std::size_t tiles_down = (work.in.rows + kTileRows - 1) / kTileRows;
    const std::size_t at_once = multiprocessors(gpu) * static_cast<std::size_t>(blocks);
    const std::size_t down = std::clamp<std::size_t>(at_once / across, 1, tiles_down);
    const cuda::Buffer<unsigned> taken(gpu, across == 1 ? 1 : 0, cuda::MemorySource::pooled);
    if (across == 1)
        cuda::check(cudaMemsetAsync(taken.data(), 0, sizeof(unsigned)), "starting to count tiles");
    kernel<<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), threads, bytes>>>(
        work, feature_maps<kFunction, kDepths>(work, reinterpret_cast<const void*>(kernel)), taken.data());
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

// Kernelised attention with given projections: features are computed where they are needed and never written
// to memory.
//
//   sum_keys: Σ φ(k) [v, 1]ᵀ of up to kChunk keys, relative to the largest exponent of the block's features
//   combine:  the sums of all chunks of a head, relative to one exponent, added in double
//   attend:   φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k)
//
// A block of sum_keys and attend has C columns of the values. Chunks and tiles depend on the lengths only.
#include <cuda_runtime.h>

#include <cstdint>

#include "imka/cuda/status.hpp"
#include "imka/graph/cuda/kernels.hpp"

namespace imka::graph::gpu {
namespace {

using ops::AttentionForm;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kChunk = 512;  // keys of a block of sum_keys
constexpr int kKeys = 32;    // at a time
constexpr int kStep = 32;    // directions of attend at a time
constexpr unsigned kAll = 0xffffffffU;

template <AttentionForm F>
constexpr int kSigns = F == AttentionForm::positive ? 2 : 1;
template <AttentionForm F>
constexpr bool kExponential = F != AttentionForm::relu;

// Results of sum_keys and combine in the scratch memory.
struct Work : AttentionWork {
    int features;
    int chunks;          // of the keys
    int tiles;           // of the directions
    float* part_values;  // per head, chunk: features x value_size
    float* part_sums;    // per head, chunk: features
    float* part_levels;  // per head, chunk, tile: exponent; -infinity without keys
    float* head_values;  // per head: features x value_size
    float* head_sums;    // per head: features
    float* head_levels;  // per head: exponent; -infinity without keys
};

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

// Exponent of the larger feature of a projection.
template <AttentionForm F>
__device__ inline float level_of(float u) {
    return F == AttentionForm::positive ? fabsf(u) : u;
}
template <AttentionForm F>
__device__ inline float feature_of(float u, float shift, float epsilon) {
    return kExponential<F> ? expf(u + shift) : fmaxf(u, 0.0F) + epsilon;
}

// Columns in groups of 4 per thread: C / 4 groups, and as many rows of threads as fit.
template <int C>
struct Layout {
    static constexpr int kGroups = C / 4;
    static constexpr int kLines = kThreads / kGroups;
    static constexpr int kFeatures = 8 * kLines;  // of a block of sum_keys; a thread has 4 of either half
    static constexpr int kQueries = 4 * kLines;   // of a block of attend
};

// Four keys of a warp: projections, exponents of their features.
template <int N>
struct WarpKeys {
    float u[4][N];
    float shift[4];  // -infinity: ignored
    float level;     // largest exponent of all features
};

__device__ inline bool is_used(const Work& w, std::int64_t head, int key, int end) {
    return key < end && (w.key_mask == nullptr || w.key_mask[head / w.key_heads * w.key_count + key] != 0);
}

// Key `key` of a head, lanes share the directions.
template <AttentionForm F, int N>
__device__ inline void load_key(const Work& w, std::int64_t head, int key, int end, int first, int i,
                                WarpKeys<N>& out) {
    const int lane = static_cast<int>(threadIdx.x & 31U);
    const bool used = is_used(w, head, key, end);
    const std::int64_t row = head * w.key_count + key;
    float level = -INFINITY;
#pragma unroll
    for (int n = 0; n < N; ++n) {
        const int direction = first + lane + 32 * n;
        const bool valid = used && direction < w.directions;
        out.u[i][n] = valid ? w.key_projections[row * w.directions + direction] : 0.0F;
        if (valid) level = fmaxf(level, level_of<F>(out.u[i][n]));
    }
    float squares = 0.0F;
    if (used && w.norm_exponent != 0.0F) {
        for (int c = lane; c < w.key_size; c += 32) {
            const float k = w.keys[row * w.key_size + c];
            squares = __fmaf_rn(k, k, squares);
        }
    }
    out.shift[i] = used ? w.norm_exponent * warp_sum(squares) : -INFINITY;
    level = kExponential<F> ? warp_max(level) + out.shift[i] : used ? 0.0F : -INFINITY;
    out.level = fmaxf(out.level, level);
}

// Features of a warp's four keys; those of ignored keys and beyond the last direction are 0.
template <AttentionForm F, int N, int Features>
__device__ inline void store_features(const Work& w, const WarpKeys<N>& keys, float level, int first,
                                      float (&out)[kKeys][Features]) {
    const int lane = static_cast<int>(threadIdx.x & 31U);
    const int row = static_cast<int>(threadIdx.x) / 32 * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const bool used = keys.shift[i] != -INFINITY;
        const float shift = keys.shift[i] - level;
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const bool valid = used && first + lane + 32 * n < w.directions;
            const float u = keys.u[i][n];
            out[row + i][lane + 32 * n] = valid ? feature_of<F>(u, shift, w.epsilon) : 0.0F;
            if constexpr (kSigns<F> == 2)
                out[row + i][Features / 2 + lane + 32 * n] =
                    valid ? feature_of<F>(-u, shift, w.epsilon) : 0.0F;
        }
    }
}

// Blocks: heads of keys x chunks x (tiles of directions x tiles of columns).
template <AttentionForm F, int C>
__global__ void __launch_bounds__(kThreads) sum_keys(const __grid_constant__ Work w) {
    using L = Layout<C>;
    constexpr int kDirections = L::kFeatures / kSigns<F>;
    constexpr int N = kDirections / 32;
    __shared__ __align__(16) float features[kKeys][L::kFeatures];
    __shared__ __align__(16) float values[kKeys][C];
    __shared__ float levels[kWarps];
    const std::int64_t head = blockIdx.x;
    const int tile = static_cast<int>(blockIdx.z) % w.tiles;
    const int first = tile * kDirections;
    const int first_col = static_cast<int>(blockIdx.z) / w.tiles * C;
    const int begin = static_cast<int>(blockIdx.y) * kChunk;
    const int end = min(begin + kChunk, w.key_count);
    const int thread = static_cast<int>(threadIdx.x);
    const int col = thread % L::kGroups * 4;
    const int line = thread / L::kGroups * 4;
    float sums[8][4] = {};
    float total = 0.0F;  // of feature `thread`
    float level = -INFINITY;
    for (int key = begin; key < end; key += kKeys) {
        WarpKeys<N> mine;
        mine.level = -INFINITY;
#pragma unroll
        for (int i = 0; i < 4; ++i) load_key<F>(w, head, key + thread / 32 * 4 + i, end, first, i, mine);
        if (thread % 32 == 0) levels[thread / 32] = mine.level;
        for (int i = thread; i < kKeys * C; i += kThreads) {
            const int k = key + i / C;
            const int c = first_col + i % C;
            values[i / C][i % C] = c < w.value_size && is_used(w, head, k, end)
                                       ? w.values[(head * w.key_count + k) * w.value_size + c]
                                       : 0.0F;
        }
        __syncthreads();
        float next = level;
#pragma unroll
        for (int i = 0; i < kWarps; ++i) next = fmaxf(next, levels[i]);
        if (next != -INFINITY) {
            if (kExponential<F> && next != level) {
                const float factor = expf(level - next);  // 0 for the first keys
                total *= factor;
#pragma unroll
                for (auto& row : sums)
                    for (float& v : row) v *= factor;
            }
            level = next;
        }
        store_features<F>(w, mine, kExponential<F> && level != -INFINITY ? level : 0.0F, first, features);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < kKeys; ++k) {
            const float4 low = *reinterpret_cast<const float4*>(&features[k][line]);
            const float4 high = *reinterpret_cast<const float4*>(&features[k][L::kFeatures / 2 + line]);
            const float4 v = *reinterpret_cast<const float4*>(&values[k][col]);
            const float f[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                sums[i][0] = __fmaf_rn(f[i], v.x, sums[i][0]);
                sums[i][1] = __fmaf_rn(f[i], v.y, sums[i][1]);
                sums[i][2] = __fmaf_rn(f[i], v.z, sums[i][2]);
                sums[i][3] = __fmaf_rn(f[i], v.w, sums[i][3]);
            }
        }
        if (thread < L::kFeatures) {
            for (int k = 0; k < kKeys; ++k) total += features[k][thread];
        }
        __syncthreads();
    }
    // Feature `i` of the block as a feature of the head; -1 beyond the last.
    const auto number = [&](int i) {
        const int direction = first + i % kDirections;
        return direction < w.directions ? i / kDirections * w.directions + direction : -1;
    };
    const std::int64_t part = head * w.chunks + blockIdx.y;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int f = number(i / 4 * (L::kFeatures / 2) + line + i % 4);
        if (f < 0) continue;
        float* out = w.part_values + (part * w.features + f) * w.value_size + first_col + col;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (first_col + col + j < w.value_size) out[j] = sums[i][j];
        }
    }
    if (first_col > 0) return;
    if (thread < L::kFeatures && number(thread) >= 0) w.part_sums[part * w.features + number(thread)] = total;
    if (thread == 0) w.part_levels[part * w.tiles + tile] = level;
}

// A block per head of keys. kDirections: of a tile of sum_keys.
__global__ void __launch_bounds__(kThreads) combine(const __grid_constant__ Work w, int tile_directions) {
    const std::int64_t head = blockIdx.x;
    const float* levels = w.part_levels + head * w.chunks * w.tiles;
    float most = -INFINITY;
    for (int i = 0; i < w.chunks * w.tiles; ++i) most = fmaxf(most, levels[i]);
    if (threadIdx.x == 0) w.head_levels[head] = most;
    const int row = w.value_size + 1;  // the last one is the sum of the feature
    for (int i = static_cast<int>(threadIdx.x); i < w.features * row; i += kThreads) {
        const int f = i / row;
        const int c = i % row;
        const int tile = f % w.directions / tile_directions;
        double sum = 0.0;
        for (int chunk = 0; chunk < w.chunks; ++chunk) {
            const float level = levels[chunk * w.tiles + tile];
            if (level == -INFINITY) continue;
            const std::int64_t at = (head * w.chunks + chunk) * w.features + f;
            const float v = c < w.value_size ? w.part_values[at * w.value_size + c] : w.part_sums[at];
            sum += static_cast<double>(expf(level - most)) * static_cast<double>(v);
        }
        const std::int64_t at = head * w.features + f;
        float* out = c < w.value_size ? w.head_values + at * w.value_size + c : w.head_sums + at;
        *out = static_cast<float>(sum);
    }
}

// Blocks: heads x tiles of queries x tiles of columns.
template <AttentionForm F, int C>
__global__ void __launch_bounds__(kThreads) attend(const __grid_constant__ Work w) {
    using L = Layout<C>;
    constexpr int kFeatures = kStep * kSigns<F>;
    constexpr int kQueries = L::kQueries;
    __shared__ __align__(16) float features[kFeatures][kQueries + 4];
    __shared__ __align__(16) float values[kFeatures][C];
    __shared__ float normalisers[kFeatures];
    __shared__ float levels[kQueries];
    const std::int64_t head = blockIdx.x;
    const std::int64_t key_head = head / w.heads * w.key_heads + head % w.heads / (w.heads / w.key_heads);
    const int first_query = static_cast<int>(blockIdx.y) * kQueries;
    const int first_col = static_cast<int>(blockIdx.z) * C;
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int col = thread % L::kGroups * 4;
    const int line = thread / L::kGroups * 4;
    const float* u = w.query_projections + (head * w.query_count + first_query) * w.directions;
    const int queries = min(kQueries, w.query_count - first_query);
    if constexpr (kExponential<F>) {
        for (int q = thread / 32; q < queries; q += kWarps) {
            float level = -INFINITY;
            for (int d = lane; d < w.directions; d += 32)
                level = fmaxf(level, level_of<F>(u[std::int64_t{q} * w.directions + d]));
            level = warp_max(level);
            if (lane == 0) levels[q] = level;
        }
    }
    float sums[4][4] = {};
    float totals[4] = {};
    for (int first = 0; first < w.directions; first += kStep) {
        __syncthreads();
        const bool valid = first + lane < w.directions;
        for (int q = thread / 32; q < kQueries; q += kWarps) {
            const bool used = valid && q < queries;
            const float x = used ? u[std::int64_t{q} * w.directions + first + lane] : 0.0F;
            const float shift = kExponential<F> && used ? -levels[q] : 0.0F;
            features[lane][q] = used ? feature_of<F>(x, shift, w.epsilon) : 0.0F;
            if constexpr (kSigns<F> == 2)
                features[kStep + lane][q] = used ? feature_of<F>(-x, shift, w.epsilon) : 0.0F;
        }
        for (int i = thread; i < kFeatures * C; i += kThreads) {
            const int direction = first + i / C % kStep;
            const int c = first_col + i % C;
            const std::int64_t f = key_head * w.features + i / C / kStep * w.directions + direction;
            const bool inside = direction < w.directions;
            values[i / C][i % C] = inside && c < w.value_size ? w.head_values[f * w.value_size + c] : 0.0F;
            if (i % C == 0) normalisers[i / C] = inside ? w.head_sums[f] : 0.0F;
        }
        __syncthreads();
#pragma unroll 4
        for (int f = 0; f < kFeatures; ++f) {
            const float4 q = *reinterpret_cast<const float4*>(&features[f][line]);
            const float4 v = *reinterpret_cast<const float4*>(&values[f][col]);
            const float n = normalisers[f];
            const float left[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sums[i][0] = __fmaf_rn(left[i], v.x, sums[i][0]);
                sums[i][1] = __fmaf_rn(left[i], v.y, sums[i][1]);
                sums[i][2] = __fmaf_rn(left[i], v.z, sums[i][2]);
                sums[i][3] = __fmaf_rn(left[i], v.w, sums[i][3]);
                totals[i] = __fmaf_rn(left[i], n, totals[i]);
            }
        }
    }
    const bool none = w.head_levels[key_head] == -INFINITY;  // no keys: 0
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (line + i >= queries) continue;
        const std::int64_t row = head * w.query_count + first_query + line + i;
        if (!none && (totals[i] == 0.0F || !isfinite(totals[i])))
            atomicMin(w.status, w.code + static_cast<Status>(row));
        const float factor = none ? 0.0F : 1.0F / totals[i];
        float* out = w.y + row * w.value_size + first_col + col;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (first_col + col + j < w.value_size) out[j] = factor * sums[i][j];
        }
    }
}

constexpr int divide_up(int a, int b) {
    return (a + b - 1) / b;
}

int columns_of(const AttentionWork& w) {
    return w.value_size <= 32 ? 32 : 64;
}
int signs_of(const AttentionWork& w) {
    return w.form == AttentionForm::positive ? 2 : 1;
}
int tile_directions(const AttentionWork& w) {
    return (columns_of(w) == 32 ? Layout<32>::kFeatures : Layout<64>::kFeatures) / signs_of(w);
}

// Lays out the scratch memory; returns its floats.
std::size_t lay_out(Work& w) {
    w.features = signs_of(w) * w.directions;
    w.chunks = divide_up(w.key_count, kChunk);
    w.tiles = divide_up(w.directions, tile_directions(w));
    const auto heads = static_cast<std::size_t>(w.sequences) * static_cast<std::size_t>(w.key_heads);
    const auto parts = heads * static_cast<std::size_t>(w.chunks);
    const auto features = static_cast<std::size_t>(w.features);
    const auto size = static_cast<std::size_t>(w.value_size);
    auto* base = static_cast<float*>(w.scratch);
    std::size_t used = 0;
    const auto take = [&](std::size_t count) {
        float* at = base == nullptr ? nullptr : base + used;
        used += count;
        return at;
    };
    w.part_values = take(parts * features * size);
    w.part_sums = take(parts * features);
    w.part_levels = take(parts * static_cast<std::size_t>(w.tiles));
    w.head_values = take(heads * features * size);
    w.head_sums = take(heads * features);
    w.head_levels = take(heads);
    return used;
}

template <AttentionForm F, int C>
void start(const Work& w) {
    const auto heads = static_cast<unsigned>(w.sequences * w.heads);
    const auto key_heads = static_cast<unsigned>(w.sequences * w.key_heads);
    const auto cols = static_cast<unsigned>(divide_up(w.value_size, C));
    const dim3 key_grid(key_heads, static_cast<unsigned>(w.chunks), static_cast<unsigned>(w.tiles) * cols);
    if (w.chunks > 0) sum_keys<F, C><<<key_grid, kThreads>>>(w);
    imka::cuda::check(cudaGetLastError(), "starting the kernel for keys");
    combine<<<key_heads, kThreads>>>(w, tile_directions(w));
    imka::cuda::check(cudaGetLastError(), "starting the kernel for sums of keys");
    const dim3 grid(heads, static_cast<unsigned>(divide_up(w.query_count, Layout<C>::kQueries)), cols);
    attend<F, C><<<grid, kThreads>>>(w);
    imka::cuda::check(cudaGetLastError(), "starting the kernel for queries");
}

template <AttentionForm F>
void start(const Work& w) {
    columns_of(w) == 32 ? start<F, 32>(w) : start<F, 64>(w);
}

}  // namespace

std::size_t attention_scratch_bytes(const AttentionWork& work) {
    Work w{};
    static_cast<AttentionWork&>(w) = work;
    w.scratch = nullptr;
    return lay_out(w) * sizeof(float);
}

void start_attention(const AttentionWork& work) {
    Work w{};
    static_cast<AttentionWork&>(w) = work;
    lay_out(w);
    switch (work.form) {
        case AttentionForm::positive:
            return start<AttentionForm::positive>(w);
        case AttentionForm::single:
        case AttentionForm::exp:
            return start<AttentionForm::single>(w);
        default:
            return start<AttentionForm::relu>(w);
    }
}

}  // namespace imka::graph::gpu

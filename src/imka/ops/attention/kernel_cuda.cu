// Kernelised attention with given projections: features are computed where they are needed and never written
// to memory.
//
//   key_exponents: the largest exponent of the features of each key
//   sum_keys:      Σ φ(k) [v, 1]ᵀ of a chunk of keys, relative to its largest exponent
//   combine:       the sums of all chunks of a head, or of those before each chunk if causal, in double
//   attend:        φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k). Causal: of earlier chunks, plus the scores of the query
//                  with the keys of its own chunk
//
// A block of sum_keys and attend has C columns of the values. Chunks and tiles depend on the lengths only.
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "imka/cuda/status.hpp"
#include "imka/ops/attention/head_features.cuh"

namespace imka::ops {
namespace heads {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kChunk = 512;       // keys of a block of sum_keys
constexpr int kCausalChunk = 64;  // and queries of a block of attend
constexpr int kKeys = 32;         // at a time

// Results in the scratch memory. A row of ones follows the features if epsilon needs Σ v and the number of
// keys. States are the sums that queries use: one per head, or one per chunk if causal.
struct Work : GpuKernelAttention {
    int features;
    int rows;         // features, and the row of ones
    int chunk;        // keys
    int chunks;       // of a head
    int tiles;        // of the directions
    int query_tiles;  // of a head
    float late;       // epsilon of exponential features
    KeyExponents exponents;
    float* part_values;   // per head, chunk: rows x value_size
    float* part_sums;     // per head, chunk: rows
    float* part_levels;   // per head, chunk: exponent; -infinity without keys
    float* state_values;  // per state: rows x value_size
    float* state_sums;    // per state: rows
    float* state_levels;  // per state: exponent; -infinity without keys
};

// Columns in groups of 4 per thread: C / 4 groups, and as many rows of threads as fit.
template <int C>
struct Layout {
    static constexpr int kGroups = C / 4;
    static constexpr int kLines = kThreads / kGroups;
    static constexpr int kFeatures = 8 * kLines;  // of a block of sum_keys; a thread has 4 of either half
    static constexpr int kQueries = 4 * kLines;   // of a block of attend
};
static_assert(Layout<64>::kQueries == kCausalChunk);

// A warp per key.
template <AttentionForm F>
__global__ void __launch_bounds__(kThreads)
    key_exponents(const __grid_constant__ GpuKernelAttention w, KeyExponents out, std::int64_t count) {
    const std::int64_t key = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
    if (key >= count) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::int64_t sequence = key / w.size.keys / w.size.key_heads;
    const bool used =
        w.size.key_mask == nullptr || w.size.key_mask[sequence * w.size.keys + key % w.size.keys] != 0;
    float shift = -INFINITY;
    float level = -INFINITY;
    if (used) {
        float squares = 0.0F;
        for (int c = lane; w.norm_exponent != 0.0F && c < w.key_size; c += 32) {
            const float x = w.keys[key * w.key_size + c];
            squares = __fmaf_rn(x, x, squares);
        }
        shift = w.norm_exponent * warp_sum(squares);
        level = row_level<F>(w.key_projections + key * w.directions, w.directions) + shift;
    }
    if (lane != 0) return;
    out.shifts[key] = shift;
    out.levels[key] = level;
}

// The largest value of all threads of the block. Synchronises the block once.
__device__ inline float block_max(float v) {
    __shared__ float parts[kWarps];
    v = warp_max(v);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    float most = parts[0];
#pragma unroll
    for (int i = 1; i < kWarps; ++i) most = fmaxf(most, parts[i]);
    return most;
}

// Loads the values of `Rows` keys of a head from `first` on, C columns from first_col on. 0 for ignored keys,
// from key `end` on, and for columns that do not exist.
template <int C, int Rows>
__device__ inline void load_values(const Work& w, std::int64_t head, int first, int end, int first_col,
                                   float (&out)[Rows][C]) {
    const std::int64_t base = head * w.size.keys;
    for (int i = static_cast<int>(threadIdx.x); i < Rows * C; i += kThreads) {
        const int key = first + i / C;
        const int c = first_col + i % C;
        const bool used = key < end && c < w.size.value_size && w.exponents.shifts[base + key] != -INFINITY;
        out[i / C][i % C] = used ? w.values[(base + key) * w.size.value_size + c] : 0.0F;
    }
}

// Adds left ⊗ right for four columns.
template <int N>
__device__ inline void add_products(const float (&left)[N], const float4& right, float (&sums)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        sums[i][0] = __fmaf_rn(left[i], right.x, sums[i][0]);
        sums[i][1] = __fmaf_rn(left[i], right.y, sums[i][1]);
        sums[i][2] = __fmaf_rn(left[i], right.z, sums[i][2]);
        sums[i][3] = __fmaf_rn(left[i], right.w, sums[i][3]);
    }
}

__device__ inline float4 four(const float* at) {
    return *reinterpret_cast<const float4*>(at);
}

// Blocks: (heads of keys x chunks) x tiles of directions x tiles of columns.
template <AttentionForm F, int C>
__global__ void __launch_bounds__(kThreads) sum_keys(const __grid_constant__ Work w) {
    using L = Layout<C>;
    constexpr int kDirections = L::kFeatures / kSigns<F>;
    __shared__ __align__(16) float features[kKeys][L::kFeatures];
    __shared__ __align__(16) float values[kKeys][C];
    const std::int64_t part = blockIdx.x;  // head and chunk
    const std::int64_t head = part / w.chunks;
    const int first = static_cast<int>(blockIdx.y) * kDirections;
    const int first_col = static_cast<int>(blockIdx.z) * C;
    const int begin = static_cast<int>(part % w.chunks) * w.chunk;
    const int end = min(begin + w.chunk, w.size.keys);
    const int thread = static_cast<int>(threadIdx.x);
    const int col = thread % L::kGroups * 4;
    const int line = thread / L::kGroups * 4;
    const std::int64_t base = head * w.size.keys;
    float level = -INFINITY;
    int kept = 0;
    for (int k = begin; k < end; k += kThreads) {
        const bool inside = k + thread < end;
        if (inside) level = fmaxf(level, w.exponents.levels[base + k + thread]);
        kept += __syncthreads_count(inside && w.exponents.shifts[base + k + thread] != -INFINITY);
    }
    level = block_max(level);
    float sums[8][4] = {};
    float total = 0.0F;  // of feature `thread`
    float ones = 0.0F;   // of column `thread`
    for (int key = begin; key < end; key += kKeys) {
        for (int i = thread; i < kKeys * kDirections; i += kThreads) {
            const int k = key + i / kDirections;
            const int direction = first + i % kDirections;
            Pair z;
            if (k < end && direction < w.directions)
                z = key_features_of<F>(w.key_projections[(base + k) * w.directions + direction],
                                       w.exponents.shifts[base + k], level, w.epsilon);
            features[i / kDirections][i % kDirections] = z.first;
            if constexpr (kSigns<F> == 2) features[i / kDirections][kDirections + i % kDirections] = z.second;
        }
        load_values(w, head, key, end, first_col, values);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < kKeys; ++k) {
            const float4 low = four(&features[k][line]);
            const float4 high = four(&features[k][L::kFeatures / 2 + line]);
            const float f[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            add_products(f, four(&values[k][col]), sums);
        }
        if (thread < L::kFeatures) {
            for (int k = 0; k < kKeys; ++k) total += features[k][thread];
        }
        if (w.late != 0.0F && thread < C) {
            for (int k = 0; k < kKeys; ++k) ones += values[k][thread];
        }
        __syncthreads();
    }
    // Index in the head of feature `i` of the block; -1 after the last feature.
    const auto number = [&](int i) {
        const int direction = first + i % kDirections;
        return direction < w.directions ? i / kDirections * w.directions + direction : -1;
    };
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int f = number(i / 4 * (L::kFeatures / 2) + line + i % 4);
        if (f < 0) continue;
        float* out = w.part_values + (part * w.rows + f) * w.size.value_size + first_col + col;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (first_col + col + j < w.size.value_size) out[j] = sums[i][j];
        }
    }
    if (w.late != 0.0F && first == 0 && thread < C && first_col + thread < w.size.value_size)
        w.part_values[(part * w.rows + w.features) * w.size.value_size + first_col + thread] = ones;
    if (first_col > 0) return;
    if (thread < L::kFeatures && number(thread) >= 0) w.part_sums[part * w.rows + number(thread)] = total;
    if (thread > 0 || first > 0) return;
    w.part_levels[part] = level;
    if (w.late != 0.0F) w.part_sums[part * w.rows + w.features] = static_cast<float>(kept);
}

// Blocks of combine per head.
__host__ __device__ inline unsigned combine_blocks(const Work& w) {
    return static_cast<unsigned>((std::int64_t{w.rows} * (w.size.value_size + 1) + kThreads - 1) / kThreads);
}

// A thread per element of the sums of a head, all chunks in order. Sums are relative to the largest exponent
// so far. The states of a causal head replace its parts: a thread overwrites only values that no other thread
// reads.
__global__ void __launch_bounds__(kThreads) combine(const __grid_constant__ Work w) {
    const int row = w.size.value_size + 1;  // the last one is the sum of the feature
    const std::int64_t head = blockIdx.x / combine_blocks(w);
    const std::int64_t i = std::int64_t{blockIdx.x % combine_blocks(w)} * kThreads + threadIdx.x;
    if (i >= std::int64_t{w.rows} * row) return;
    const auto f = static_cast<int>(i / row);
    const auto c = static_cast<int>(i % row);
    const auto place = [&](float* values, float* sums, std::int64_t number) {
        const std::int64_t at = number * w.rows + f;
        return c < w.size.value_size ? values + at * w.size.value_size + c : sums + at;
    };
    double sum = 0.0;
    float level = -INFINITY;
    const auto store = [&](std::int64_t state) {
        *place(w.state_values, w.state_sums, state) = static_cast<float>(sum);
        if (i == 0) w.state_levels[state] = level;
    };
    for (int chunk = 0; chunk < w.chunks; ++chunk) {
        const std::int64_t part = head * w.chunks + chunk;
        const double v = *place(w.part_values, w.part_sums, part);
        const float own = w.part_levels[part];
        if (w.size.causal) store(part);
        if (own == -INFINITY) continue;
        const float most = fmaxf(level, own);
        const bool scaled = f < w.features;
        if (scaled && most != level) sum *= exp(static_cast<double>(level) - static_cast<double>(most));
        sum += scaled && most != own ? exp(static_cast<double>(own) - static_cast<double>(most)) * v : v;
        level = most;
    }
    if (!w.size.causal) store(head);
}

// Shared memory of a block, for its queries.
template <AttentionForm F, int C, bool kCausal>
struct AttendMemory {
    static constexpr int kStep = kCausal ? 16 : 32;  // directions at a time
    static constexpr int kFeatures = kStep * kSigns<F>;
    static constexpr int kQueries = Layout<C>::kQueries;
    float features[kFeatures][kQueries + 4];
    float values[kFeatures][C];
    float normalisers[kFeatures];
    float levels[kQueries];
    float extras[kQueries];  // epsilon Σ φ(q)
};
// Keys of the same chunk; there are as many keys as queries.
template <int Features>
struct ChunkMemory {
    float features[Features][kCausalChunk + 4];
    float weights[kCausalChunk][kCausalChunk + 4];  // of key, query
    float levels[kCausalChunk];                     // of keys
    float most[kCausalChunk];                       // largest exponent up to a query
};
struct Nothing {};

// The block's queries and the keys and sums that they use.
struct QueryTile {
    std::int64_t head;      // of queries
    std::int64_t key_head;  // of keys
    std::int64_t state;
    int first;  // query
    int queries;
};

template <bool kCausal>
__device__ inline QueryTile query_tile(const Work& w, int size) {
    const auto tile = static_cast<int>(blockIdx.x) % w.query_tiles;
    const std::int64_t head = static_cast<int>(blockIdx.x) / w.query_tiles;
    const std::int64_t key_head =
        head / w.size.heads * w.size.key_heads + head % w.size.heads / (w.size.heads / w.size.key_heads);
    return {head, key_head, kCausal ? key_head * w.chunks + tile : key_head, tile * size,
            min(size, w.size.queries - tile * size)};
}

// Features of the queries, and rows of the sums, for directions from `first` on.
template <AttentionForm F, int C, bool kCausal>
__device__ inline void load_step(const Work& w, const QueryTile& t, int first, int first_col,
                                 AttendMemory<F, C, kCausal>& m) {
    using M = AttendMemory<F, C, kCausal>;
    const float* u = w.query_projections + (t.head * w.size.queries + t.first) * w.directions;
    for (int i = static_cast<int>(threadIdx.x); i < M::kStep * M::kQueries; i += kThreads) {
        const int d = i % M::kStep;
        const int q = i / M::kStep;
        Pair z;
        if (first + d < w.directions && q < t.queries)
            z = query_features_of<F>(u[std::int64_t{q} * w.directions + first + d], m.levels[q], w.epsilon);
        m.features[d][q] = z.first;
        if constexpr (kSigns<F> == 2) m.features[M::kStep + d][q] = z.second;
    }
    for (int i = static_cast<int>(threadIdx.x); i < M::kFeatures * C; i += kThreads) {
        const int direction = first + i / C % M::kStep;
        const int c = first_col + i % C;
        const std::int64_t f = t.state * w.rows + i / C / M::kStep * w.directions + direction;
        const bool inside = direction < w.directions;
        m.values[i / C][i % C] =
            inside && c < w.size.value_size ? w.state_values[f * w.size.value_size + c] : 0.0F;
        if (i % C == 0) m.normalisers[i / C] = inside ? w.state_sums[f] : 0.0F;
    }
}

// Features of the keys of the chunk, each relative to its own largest exponent.
template <AttentionForm F, int Features>
__device__ inline void load_chunk(const Work& w, const QueryTile& t, int first, ChunkMemory<Features>& m) {
    constexpr int kStep = Features / kSigns<F>;
    for (int i = static_cast<int>(threadIdx.x); i < kStep * kCausalChunk; i += kThreads) {
        const int d = i % kStep;
        const int k = i / kStep;
        Pair z;
        if (first + d < w.directions && k < t.queries) {
            const std::int64_t key = t.key_head * w.size.keys + t.first + k;
            z = key_features_of<F>(w.key_projections[key * w.directions + first + d], w.exponents.shifts[key],
                                   w.exponents.levels[key], w.epsilon);
        }
        m.features[d][k] = z.first;
        if constexpr (kSigns<F> == 2) m.features[kStep + d][k] = z.second;
    }
}

// Exponents of the chunk's keys, and the largest one up to each query.
template <int Features>
__device__ inline void measure_chunk(const Work& w, const QueryTile& t, ChunkMemory<Features>& m) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kCausalChunk)
        m.levels[thread] =
            thread < t.queries ? w.exponents.levels[t.key_head * w.size.keys + t.first + thread] : -INFINITY;
    __syncthreads();
    if (thread < kCausalChunk) {
        float most = w.state_levels[t.state];
        for (int k = 0; k <= thread; ++k) most = fmaxf(most, m.levels[k]);
        m.most[thread] = most;
    }
    __syncthreads();
}

// Blocks: (heads x tiles of queries) x tiles of columns.
template <AttentionForm F, int C, bool kCausal>
__global__ void __launch_bounds__(kThreads) attend(const __grid_constant__ Work w) {
    using L = Layout<C>;
    using M = AttendMemory<F, C, kCausal>;
    __shared__ __align__(16) M m;
    __shared__ __align__(16) std::conditional_t<kCausal, ChunkMemory<M::kFeatures>, Nothing> own;
    const QueryTile t = query_tile<kCausal>(w, L::kQueries);
    const int first_col = static_cast<int>(blockIdx.y) * C;
    const int thread = static_cast<int>(threadIdx.x);
    const int col = thread % L::kGroups * 4;
    const int line = thread / L::kGroups * 4;
    for (int q = thread / 32; q < L::kQueries; q += kWarps) {
        const std::int64_t row = t.head * w.size.queries + t.first + q;
        const float level =
            q < t.queries ? row_level<F>(w.query_projections + row * w.directions, w.directions) : 0.0F;
        if (thread % 32 == 0) m.levels[q] = level;
    }
    float sums[4][4] = {};
    float totals[4] = {};
    float scores[4][4] = {};  // of keys of the same chunk
    float query_sum = 0.0F;   // Σ φ of query `thread`
    for (int first = 0; first < w.directions; first += M::kStep) {
        __syncthreads();
        load_step(w, t, first, first_col, m);
        if constexpr (kCausal) load_chunk<F>(w, t, first, own);
        __syncthreads();
#pragma unroll 4
        for (int f = 0; f < M::kFeatures; ++f) {
            const float4 q = four(&m.features[f][line]);
            const float n = m.normalisers[f];
            const float left[4] = {q.x, q.y, q.z, q.w};
            add_products(left, four(&m.values[f][col]), sums);
            if constexpr (kCausal) add_products(left, four(&own.features[f][col]), scores);
#pragma unroll
            for (int i = 0; i < 4; ++i) totals[i] = __fmaf_rn(left[i], n, totals[i]);
        }
        if (w.late != 0.0F && thread < L::kQueries) {
            for (int f = 0; f < M::kFeatures; ++f) query_sum += m.features[f][thread];
        }
    }
    if (thread < L::kQueries) m.extras[thread] = w.late * query_sum;
    __syncthreads();
    const float level = w.state_levels[t.state];
    bool none[4];  // no keys: 0
#pragma unroll
    for (int i = 0; i < 4; ++i) none[i] = level == -INFINITY;
    if constexpr (kCausal) {
        measure_chunk(w, t, own);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float most = own.most[line + i];
            none[i] = most == -INFINITY;
            const float before = level == -INFINITY ? 0.0F : expf(level - most);
            totals[i] *= before;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                sums[i][j] *= before;
                const float key_level = own.levels[col + j];
                const bool used = col + j <= line + i && key_level != -INFINITY;
                own.weights[col + j][line + i] =
                    used ? __fmaf_rn(scores[i][j], expf(key_level - most), m.extras[line + i]) : 0.0F;
            }
        }
        for (int first = 0; first < kCausalChunk; first += M::kFeatures) {
            __syncthreads();
            load_values(w, t.key_head, t.first + first, w.size.keys, first_col, m.values);
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < M::kFeatures; ++k) {
                const float4 q = four(&own.weights[first + k][line]);
                const float left[4] = {q.x, q.y, q.z, q.w};
                add_products(left, four(&m.values[k][col]), sums);
#pragma unroll
                for (int i = 0; i < 4; ++i) totals[i] += left[i];
            }
        }
    }
    const std::int64_t ones = t.state * w.rows + w.features;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (line + i >= t.queries) continue;
        const float extra = m.extras[line + i];
        if (w.late != 0.0F) totals[i] = __fmaf_rn(extra, w.state_sums[ones], totals[i]);
        const std::int64_t row = t.head * w.size.queries + t.first + line + i;
        if (!none[i] && (totals[i] == 0.0F || !isfinite(totals[i])))
            atomicMin(w.status, w.code + static_cast<GpuStatus>(row));
        const float factor = none[i] ? 0.0F : 1.0F / totals[i];
        float* out = w.y + row * w.size.value_size;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int c = first_col + col + j;
            if (c >= w.size.value_size) continue;
            if (w.late != 0.0F)
                sums[i][j] = __fmaf_rn(extra, w.state_values[ones * w.size.value_size + c], sums[i][j]);
            out[c] = factor * sums[i][j];
        }
    }
}

int columns_of(const GpuKernelAttention& w) {
    return w.size.value_size <= 32 && !w.size.causal ? 32 : 64;
}

// Lays out the scratch memory; returns its floats.
std::size_t lay_out(Work& w) {
    const auto& form = attention_form(w.form);
    const auto signs = static_cast<int>(form.per_direction);
    const int cols = columns_of(w);
    w.features = signs * w.directions;
    w.late = form.exponential ? w.epsilon : 0.0F;
    w.rows = w.features + (w.late != 0.0F ? 1 : 0);
    w.chunk = w.size.causal ? kCausalChunk : kChunk;
    w.chunks = divide_up(w.size.keys, w.chunk);
    w.tiles = divide_up(w.directions, (cols == 32 ? Layout<32>::kFeatures : Layout<64>::kFeatures) / signs);
    w.query_tiles = divide_up(w.size.queries, cols == 32 ? Layout<32>::kQueries : Layout<64>::kQueries);
    const std::size_t heads = static_cast<std::size_t>(w.size.sequences * w.size.key_heads);
    const auto parts = heads * static_cast<std::size_t>(w.chunks);
    const auto rows = static_cast<std::size_t>(w.rows);
    const auto size = static_cast<std::size_t>(w.size.value_size);
    auto* base = static_cast<float*>(w.scratch);
    std::size_t used = 0;
    const auto take = [&](std::size_t count) {
        float* at = base == nullptr ? nullptr : base + used;
        used += count;
        return at;
    };
    w.exponents = {take(key_count(w.size)), take(key_count(w.size))};
    w.part_values = take(parts * rows * size);
    w.part_sums = take(parts * rows);
    w.part_levels = take(parts);
    w.state_values = w.size.causal ? w.part_values : take(heads * rows * size);
    w.state_sums = w.size.causal ? w.part_sums : take(heads * rows);
    w.state_levels = take(w.size.causal ? parts : heads);
    return used;
}

template <AttentionForm F, int C, bool kCausal>
void start(const Work& w) {
    const auto heads = static_cast<unsigned>(w.size.sequences * w.size.heads);
    const auto key_heads = static_cast<unsigned>(w.size.sequences * w.size.key_heads);
    const auto cols = static_cast<unsigned>(divide_up(w.size.value_size, C));
    sum_keys<F, C><<<dim3(key_heads * static_cast<unsigned>(w.chunks), static_cast<unsigned>(w.tiles), cols),
                     kThreads>>>(w);
    cuda::check(cudaGetLastError(), "starting the kernel for keys");
    combine<<<key_heads * combine_blocks(w), kThreads>>>(w);
    cuda::check(cudaGetLastError(), "starting the kernel for sums of keys");
    attend<F, C, kCausal><<<dim3(heads * static_cast<unsigned>(w.query_tiles), cols), kThreads>>>(w);
    cuda::check(cudaGetLastError(), "starting the kernel for queries");
}

template <AttentionForm F>
void start(const Work& w) {
    if (w.size.causal) return start<F, 64, true>(w);
    columns_of(w) == 32 ? start<F, 32, false>(w) : start<F, 64, false>(w);
}

}  // namespace

std::size_t key_count(const GpuHeadSizes& size) {
    return static_cast<std::size_t>(size.sequences) * static_cast<std::size_t>(size.key_heads) *
           static_cast<std::size_t>(size.keys);
}

void start_key_exponents(const GpuKernelAttention& work, const KeyExponents& out) {
    const auto count = static_cast<std::int64_t>(key_count(work.size));
    const auto blocks = static_cast<unsigned>((count + kWarps - 1) / kWarps);
    with_form(work.form,
              [&]<AttentionForm F>() { key_exponents<F><<<blocks, kThreads>>>(work, out, count); });
    cuda::check(cudaGetLastError(), "starting the kernel for exponents of keys");
}

}  // namespace heads

std::size_t kernel_attention_scratch_bytes(const GpuKernelAttention& work) {
    heads::Work w{};
    static_cast<GpuKernelAttention&>(w) = work;
    w.scratch = nullptr;
    return heads::lay_out(w) * sizeof(float);
}

void start_kernel_attention(const GpuKernelAttention& work) {
    heads::Work w{};
    static_cast<GpuKernelAttention&>(w) = work;
    heads::lay_out(w);
    heads::start_key_exponents(work, w.exponents);
    heads::with_form(work.form, [&]<AttentionForm F>() { heads::start<F>(w); });
}

}  // namespace imka::ops

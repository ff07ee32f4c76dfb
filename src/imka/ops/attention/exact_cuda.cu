// Exact attention: a block has 128 queries and 64 columns of the values, and goes through the keys 64 at a
// time. Scores, then their exponentials relative to the largest one so far, then the sums of values.
#include <cuda_runtime.h>

#include "imka/cuda/status.hpp"
#include "imka/ops/attention/gpu_attention.hpp"
#include "imka/ops/product/product_tile.cuh"

namespace imka::ops {
namespace {

constexpr unsigned kAll = 0xffffffffU;

struct Work : GpuExactAttention {
    int count;        // rows of y per head
    int query_tiles;  // of a head
    bool vectors_q;   // rows can be read four elements at a time
    bool vectors_k;
    bool vectors_v;
    bool vectors_y;
};

// Pointers to the heads of a block.
struct Heads {
    const float* q;
    const float* k;
    const float* v;
    const std::uint8_t* mask;  // none: all keys are used
};
__device__ inline Heads heads_of(const Work& w, std::int64_t head) {
    const std::int64_t sequence = head / w.size.heads;
    const std::int64_t key_head =
        sequence * w.size.key_heads + head % w.size.heads / (w.size.heads / w.size.key_heads);
    return {w.q + head * w.size.queries * w.key_size, w.k + key_head * w.size.keys * w.key_size,
            w.v + key_head * w.size.keys * w.size.value_size,
            w.size.key_mask == nullptr ? nullptr : w.size.key_mask + sequence * w.size.keys};
}

// The query of a row of y.
__device__ inline int query_of(const Work& w, int row) {
    return w.rows == nullptr ? row : w.rows[row];
}
// Number of keys that the query uses.
__device__ inline int limit_of(const Work& w, int row) {
    return w.size.causal ? query_of(w, row) + 1 : w.size.keys;
}

// The scores of the block's queries with 64 keys from `key` on.
__device__ inline void multiply_keys(const Work& w, const Heads& h, int first, int key, tile::Left& a,
                                     tile::Right& b, tile::Sums& scores) {
    const int r = first + tile::left_row();
    const int c = key + tile::right_col();
    const float* q = r < w.count ? h.q + std::int64_t{query_of(w, r)} * w.key_size : nullptr;
    const float* k = c < w.size.keys ? h.k + std::int64_t{c} * w.key_size : nullptr;
    float left[8];
    float right[4];
    const auto load = [&](int inner) {
        tile::load_run(q, inner + tile::left_first(), w.key_size, w.vectors_q, left);
        tile::load_run(k, inner + tile::right_first(), w.key_size, w.vectors_k, right);
    };
    load(0);
    for (int inner = 0; inner < w.key_size; inner += tile::kInner) {
        tile::store_left(left, a);
        tile::store_columns(right, b);
        __syncthreads();
        if (inner + tile::kInner < w.key_size) load(inner + tile::kInner);
        tile::multiply_step(a, b, scores);
        __syncthreads();
    }
}

// Over the 16 threads that share a row.
__device__ inline float row_max(float v) {
#pragma unroll
    for (int i = 8; i > 0; i /= 2) v = fmaxf(v, __shfl_xor_sync(kAll, v, i));
    return v;
}
__device__ inline float row_sum(float v) {
#pragma unroll
    for (int i = 8; i > 0; i /= 2) v += __shfl_xor_sync(kAll, v, i);
    return v;
}

// Softmax so far of the thread's rows: largest score, Σ exp(score - most), Σ exp(score - most) v.
struct Running {
    float most[8];
    float total[8];
    tile::Sums sums;
};

using Weights = float[tile::kCols][tile::kRows + tile::kPad];  // of key, query

// Scores become weights in shared memory; sums of earlier keys become relative to the new largest score.
__device__ inline void weigh(const Work& w, const Heads& h, int first, int key, const tile::Sums& scores,
                             Running& running, Weights& weights) {
    bool kept[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int c = key + tile::own_col() + j;
        kept[j] = c < w.size.keys && (h.mask == nullptr || h.mask[c] != 0);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = first + tile::own_row() + i;
        const int limit = row < w.count ? limit_of(w, row) : 0;
        float s[4];
        float most = running.most[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            s[j] = kept[j] && key + tile::own_col() + j < limit ? w.scale * scores[i][j] : -INFINITY;
            most = fmaxf(most, s[j]);
        }
        most = row_max(most);
        const float factor = running.most[i] == most ? 1.0F : expf(running.most[i] - most);
        running.most[i] = most;
        const float shift = most == -INFINITY ? 0.0F : most;
        float sum = 0.0F;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float p = expf(s[j] - shift);
            weights[tile::own_col() + j][tile::own_row() + i] = p;
            sum += p;
            running.sums[i][j] *= factor;
        }
        running.total[i] = __fmaf_rn(running.total[i], factor, row_sum(sum));
    }
}

// Adds the values of 64 keys from `key` on, times their weights.
__device__ inline void multiply_values(const Work& w, const Heads& h, int key, int first_col,
                                       const Weights& weights, tile::Right& b, tile::Sums& sums) {
    float right[4];
    const auto load = [&](int inner) {
        const int r = key + inner + tile::inner_row();
        const bool used = r < w.size.keys && (h.mask == nullptr || h.mask[r] != 0);
        tile::load_run(used ? h.v + std::int64_t{r} * w.size.value_size : nullptr,
                       first_col + tile::own_col(), w.size.value_size, w.vectors_v, right);
    };
    load(0);
#pragma unroll 1
    for (int inner = 0; inner < tile::kCols; inner += tile::kInner) {
        tile::store_rows(right, b);
        __syncthreads();
        if (inner + tile::kInner < tile::kCols) load(inner + tile::kInner);
        tile::multiply_step(*reinterpret_cast<const tile::Left*>(&weights[inner]), b, sums);
        __syncthreads();
    }
}

// Blocks: (heads x tiles of queries) x tiles of columns.
__global__ void __launch_bounds__(tile::kThreads, 2) exact(const __grid_constant__ Work w) {
    __shared__ __align__(16) Weights weights;
    __shared__ __align__(16) tile::Left a;
    __shared__ __align__(16) tile::Right b;
    const std::int64_t head = static_cast<int>(blockIdx.x) / w.query_tiles;
    const int first = static_cast<int>(blockIdx.x) % w.query_tiles * tile::kRows;
    const int first_col = static_cast<int>(blockIdx.y) * tile::kCols;
    const Heads h = heads_of(w, head);
    // No query of the block uses more keys than the last one.
    const int end = min(w.size.keys, limit_of(w, min(first + tile::kRows, w.count) - 1));
    Running running;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        running.most[i] = -INFINITY;
        running.total[i] = 0.0F;
#pragma unroll
        for (int j = 0; j < 4; ++j) running.sums[i][j] = 0.0F;
    }
    for (int key = 0; key < end; key += tile::kCols) {
        tile::Sums scores = {};
        multiply_keys(w, h, first, key, a, b, scores);
        weigh(w, h, first, key, scores, running, weights);
        multiply_values(w, h, key, first_col, weights, b, running.sums);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (first + tile::own_row() + i >= w.count) continue;
        const std::int64_t row = head * w.count + first + tile::own_row() + i;
        const bool none = running.most[i] == -INFINITY && running.total[i] == 0.0F;
        const float total = running.total[i];
        if (!none && (total == 0.0F || !isfinite(total)))
            atomicMin(w.status, w.code + static_cast<GpuStatus>(row));
        float y[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) y[j] = none ? 0.0F : running.sums[i][j] / total;
        tile::store_run(y, first_col + tile::own_col(), w.size.value_size, w.vectors_y,
                        w.y + row * w.size.value_size);
    }
}

}  // namespace

void start_exact_attention(const GpuExactAttention& work) {
    Work w{};
    static_cast<GpuExactAttention&>(w) = work;
    w.count = work.rows == nullptr ? work.size.queries : work.row_count;
    w.query_tiles = (w.count + tile::kRows - 1) / tile::kRows;
    const bool fours = work.key_size % 4 == 0;
    w.vectors_q = fours && tile::is_aligned(work.q);
    w.vectors_k = fours && tile::is_aligned(work.k);
    const bool value_fours = work.size.value_size % 4 == 0;
    w.vectors_v = value_fours && tile::is_aligned(work.v);
    w.vectors_y = value_fours && tile::is_aligned(work.y);
    const auto heads = static_cast<unsigned>(work.size.sequences * work.size.heads);
    const dim3 grid(heads * static_cast<unsigned>(w.query_tiles),
                    static_cast<unsigned>((work.size.value_size + tile::kCols - 1) / tile::kCols));
    exact<<<grid, tile::kThreads>>>(w);
    cuda::check(cudaGetLastError(), "starting the kernel for exact attention");
}

}  // namespace imka::ops

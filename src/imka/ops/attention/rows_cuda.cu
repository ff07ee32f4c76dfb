// Rows of attention matrices: scores by a matrix product, of queries and keys or of their features; then a
// block per row divides by the sum. Differences between matrices.
#include <cuda_runtime.h>

#include "imka/cuda/status.hpp"
#include "imka/ops/attention/head_features.cuh"
#include "imka/ops/product/gpu_product.hpp"

namespace imka::ops {
namespace heads {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Features of rows of projections, directions first.
struct RowFeatures {
    const float* u;
    int directions;
    float epsilon;
    int count;
    const int* rows;         // of queries
    KeyExponents exponents;  // of keys
    float* z;
    float* sums;  // of queries: Σ φ
};

// A warp per row.
template <AttentionForm F, bool kKeys>
__global__ void __launch_bounds__(kThreads) row_features(const __grid_constant__ RowFeatures w) {
    const int row = static_cast<int>((blockIdx.x * kThreads + threadIdx.x) / 32);
    if (row >= w.count) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::int64_t source = kKeys ? row : w.rows[row];
    const float* u = w.u + source * w.directions;
    float shift = 0.0F;
    float level = 0.0F;
    if constexpr (kKeys) {
        shift = w.exponents.shifts[row];
        level = w.exponents.levels[row];
    } else {
        level = row_level<F>(u, w.directions);
    }
    float* z = w.z + std::int64_t{row} * w.directions * kSigns<F>;
    float sum = 0.0F;
    for (int d = lane; d < w.directions; d += 32) {
        Pair f;
        if constexpr (kKeys) {
            f = key_features_of<F>(u[d], shift, level, w.epsilon);
        } else {
            f = query_features_of<F>(u[d], level, w.epsilon);
        }
        z[d] = f.first;
        sum += f.first;
        if constexpr (kSigns<F> == 2) {
            z[w.directions + d] = f.second;
            sum += f.second;
        }
    }
    if constexpr (!kKeys) {
        sum = warp_sum(sum);
        if (lane == 0) w.sums[row] = sum;
    }
}

template <bool kKeys>
void start_row_features(AttentionForm form, const RowFeatures& work) {
    const auto blocks = static_cast<unsigned>(divide_up(work.count, kWarps));
    with_form(form, [&]<AttentionForm F>() { row_features<F, kKeys><<<blocks, kThreads>>>(work); });
    cuda::check(cudaGetLastError(), "starting the kernel for features of rows");
}

// The largest value or the sum over all threads of a block, in a fixed order.
template <class T, class Join>
__device__ inline T block_join(T v, const Join& join) {
    __shared__ T parts[kWarps];
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v = join(v, __shfl_xor_sync(kAll, v, i));
    __syncthreads();  // the parts of an earlier call have been read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    T all = parts[0];
#pragma unroll
    for (int i = 1; i < kWarps; ++i) all = join(all, parts[i]);
    return all;
}
__device__ inline double block_sum(double v) {
    return block_join(v, [](double a, double b) { return a + b; });
}

// Turns scores into weights.
struct Rows {
    float* out;  // rows x keys
    const int* rows;
    int keys;
    bool causal;
    const std::uint8_t* mask;  // exact
    float scale;               // exact
    const float* levels;       // kernelised: of the keys
    const float* sums;         // kernelised: of the features of each query
    float late;                // kernelised: epsilon of exponential features
    GpuStatus* status;         // kernelised
    GpuStatus code;            // of query 0
};

// A block per row.
template <bool kExact>
__global__ void __launch_bounds__(kThreads) finish_rows(const __grid_constant__ Rows w) {
    const int query = w.rows[blockIdx.x];
    const int limit = w.causal ? query + 1 : w.keys;
    float* row = w.out + std::int64_t{blockIdx.x} * w.keys;
    const auto exponent = [&](int j) {
        if (j >= limit) return -INFINITY;
        if constexpr (!kExact) return w.levels[j];
        return w.mask == nullptr || w.mask[j] != 0 ? w.scale * row[j] : -INFINITY;
    };
    float most = -INFINITY;
    for (int j = static_cast<int>(threadIdx.x); j < w.keys; j += kThreads) most = fmaxf(most, exponent(j));
    most = block_join(most, [](float a, float b) { return fmaxf(a, b); });
    const float extra = kExact ? 0.0F : w.late * w.sums[blockIdx.x];
    double sum = 0.0;
    for (int j = static_cast<int>(threadIdx.x); j < w.keys; j += kThreads) {
        const float e = exponent(j);
        float weight = 0.0F;
        if (e != -INFINITY) {
            weight = expf(e - most);
            if constexpr (!kExact) weight = __fmaf_rn(row[j], weight, extra);
        }
        row[j] = weight;
        sum += static_cast<double>(weight);
    }
    sum = block_sum(sum);
    if (!kExact && most != -INFINITY && (sum == 0.0 || !isfinite(sum)) && threadIdx.x == 0)
        atomicMin(w.status, w.code + static_cast<GpuStatus>(query));
    const double factor = most == -INFINITY ? 0.0 : 1.0 / sum;
    for (int j = static_cast<int>(threadIdx.x); j < w.keys; j += kThreads)
        row[j] = static_cast<float>(static_cast<double>(row[j]) * factor);
}

__global__ void __launch_bounds__(kThreads) difference(const __grid_constant__ GpuDifference w) {
    double squares = 0.0;
    double errors = 0.0;
    const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < w.count; i += step) {
        const double a = w.a[i];
        const double e = a - static_cast<double>(w.b[i]);
        squares += a * a;
        errors += e * e;
    }
    squares = block_sum(squares);
    errors = block_sum(errors);
    if (threadIdx.x > 0) return;
    w.sums[2 * blockIdx.x] = squares;
    w.sums[2 * blockIdx.x + 1] = errors;
}

// Attention restricted to the key head of a query head.
GpuKernelAttention head_of_keys(GpuKernelAttention work, int head) {
    const std::int64_t key_head = head / (work.size.heads / work.size.key_heads);
    const std::int64_t first = key_head * work.size.keys;
    work.size.sequences = 1;
    work.size.key_heads = 1;
    work.key_projections += first * work.directions;
    if (work.keys != nullptr) work.keys += first * work.key_size;
    return work;
}

struct RowsMemory {
    KeyExponents exponents;
    float* key_features;
    float* query_features;
    float* sums;
    std::size_t floats;
};
RowsMemory lay_out(const GpuKernelAttention& attention, const GpuAttentionRows& rows) {
    const auto keys = static_cast<std::size_t>(attention.size.keys);
    const auto count = static_cast<std::size_t>(rows.count);
    const auto features =
        attention_form(attention.form).per_direction * static_cast<std::size_t>(attention.directions);
    auto* base = static_cast<float*>(rows.scratch);
    std::size_t used = 0;
    const auto take = [&](std::size_t size) {
        float* at = base == nullptr ? nullptr : base + used;
        used += (size + 3) / 4 * 4;  // aligned to 16 bytes
        return at;
    };
    RowsMemory m{};
    m.exponents = {take(keys), take(keys)};
    m.key_features = take(keys * features);
    m.query_features = take(count * features);
    m.sums = take(count);
    m.floats = used;
    return m;
}

}  // namespace
}  // namespace heads

std::size_t kernel_rows_scratch_bytes(const GpuKernelAttention& attention, const GpuAttentionRows& rows) {
    auto without = rows;
    without.scratch = nullptr;
    return heads::lay_out(attention, without).floats * sizeof(float);
}

void start_kernel_rows(const GpuKernelAttention& attention, const GpuAttentionRows& rows) {
    const auto m = heads::lay_out(attention, rows);
    const auto& form = attention_form(attention.form);
    const auto keys = heads::head_of_keys(attention, rows.head);
    heads::start_key_exponents(keys, m.exponents);
    heads::RowFeatures features{};
    features.u = keys.key_projections;
    features.directions = keys.directions;
    features.epsilon = keys.epsilon;
    features.count = keys.size.keys;
    features.exponents = m.exponents;
    features.z = m.key_features;
    heads::start_row_features<true>(attention.form, features);
    features.u =
        attention.query_projections + std::int64_t{rows.head} * attention.size.queries * attention.directions;
    features.count = rows.count;
    features.rows = rows.rows;
    features.z = m.query_features;
    features.sums = m.sums;
    heads::start_row_features<false>(attention.form, features);
    GpuProduct product;
    product.a = m.query_features;
    product.b = m.key_features;
    product.c = rows.out;
    product.rows = rows.count;
    product.inner = static_cast<std::int64_t>(form.per_direction) * attention.directions;
    product.cols = attention.size.keys;
    product.transposed = true;
    start_products(product);
    heads::Rows finish{};
    finish.out = rows.out;
    finish.rows = rows.rows;
    finish.keys = attention.size.keys;
    finish.causal = attention.size.causal;
    finish.levels = m.exponents.levels;
    finish.sums = m.sums;
    finish.late = form.exponential ? attention.epsilon : 0.0F;
    finish.status = attention.status;
    finish.code =
        attention.code + static_cast<GpuStatus>(rows.head) * static_cast<GpuStatus>(attention.size.queries);
    heads::finish_rows<false><<<static_cast<unsigned>(rows.count), heads::kThreads>>>(finish);
    cuda::check(cudaGetLastError(), "starting the kernel for rows of attention");
}

void start_exact_rows(const GpuExactAttention& attention, const GpuAttentionRows& rows) {
    const auto& size = attention.size;
    const std::int64_t key_head = rows.head / (size.heads / size.key_heads);
    GpuProduct product;
    product.a = attention.q + std::int64_t{rows.head} * size.queries * attention.key_size;
    product.b = attention.k + key_head * size.keys * attention.key_size;
    product.c = rows.out;
    product.rows = rows.count;
    product.inner = attention.key_size;
    product.cols = size.keys;
    product.transposed = true;
    product.a_rows = rows.rows;
    start_products(product);
    heads::Rows finish{};
    finish.out = rows.out;
    finish.rows = rows.rows;
    finish.keys = size.keys;
    finish.causal = size.causal;
    finish.mask = size.key_mask;
    finish.scale = attention.scale;
    heads::finish_rows<true><<<static_cast<unsigned>(rows.count), heads::kThreads>>>(finish);
    cuda::check(cudaGetLastError(), "starting the kernel for rows of attention");
}

void start_difference(const GpuDifference& work) {
    heads::difference<<<kDifferenceParts, heads::kThreads>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel for differences");
}

}  // namespace imka::ops

// Functions of rows and axes: layer norm, softmax, sums, selection by index.
#include <cuda_runtime.h>

#include <cstdint>

#include "imka/cuda/status.hpp"
#include "imka/graph/cuda/kernels.hpp"

namespace imka::graph::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kAll = 0xffffffffU;

__device__ inline float warp_sum(float v) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(kAll, v, i);
    return v;
}
__device__ inline float warp_max(float v) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v = fmaxf(v, __shfl_xor_sync(kAll, v, i));
    return v;
}

// The row of a warp; null beyond the last.
__device__ inline const float* row_of(const RowsWork& w, std::int64_t& offset) {
    const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
    offset = row * w.size;
    return row < w.rows ? w.x + offset : nullptr;
}

// A warp per row. Rows of up to 32 kHeld elements are read once.
constexpr int kHeld = 8;
struct Row {
    const float* x;
    int size;
    float held[kHeld];
    __device__ Row(const float* from, int count) : x(from), size(count) {
        const int lane = static_cast<int>(threadIdx.x & 31U);
#pragma unroll
        for (int i = 0; i < kHeld; ++i) held[i] = lane + 32 * i < size ? x[lane + 32 * i] : 0.0F;
    }
    // body(column, value)
    template <class Body>
    __device__ void each(const Body& body) const {
        const int lane = static_cast<int>(threadIdx.x & 31U);
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            if (lane + 32 * i < size) body(lane + 32 * i, held[i]);
        }
        for (int c = lane + 32 * kHeld; c < size; c += 32) body(c, x[c]);
    }
};

__global__ void __launch_bounds__(kThreads) layer_norm(const __grid_constant__ RowsWork w) {
    std::int64_t offset = 0;
    const float* x = row_of(w, offset);
    if (x == nullptr) return;
    const Row row(x, w.size);
    float sum = 0.0F;
    row.each([&](int, float v) { sum += v; });
    const float mean = warp_sum(sum) / static_cast<float>(w.size);
    float squares = 0.0F;
    row.each([&](int, float v) { squares += (v - mean) * (v - mean); });
    const float variance = warp_sum(squares) / static_cast<float>(w.size);
    const float inverse = 1.0F / sqrtf(variance + w.epsilon);
    float* y = w.y + offset;
    row.each([&](int c, float v) {
        y[c] = (v - mean) * inverse * w.scale[c] + (w.bias == nullptr ? 0.0F : w.bias[c]);
    });
}

// As ops::softmax: an infinite element is the only one that is not 0; NaN gives NaN.
__global__ void __launch_bounds__(kThreads) softmax(const __grid_constant__ RowsWork w) {
    std::int64_t offset = 0;
    const float* x = row_of(w, offset);
    if (x == nullptr) return;
    const Row row(x, w.size);
    float most = -INFINITY;
    row.each([&](int, float v) { most = v > most ? v : most; });
    most = warp_max(most);
    const auto power = [&](float v) {
        return most == INFINITY ? (v == most ? 1.0F : v != v ? v : 0.0F) : expf(v - most);
    };
    float sum = 0.0F;
    row.each([&](int, float v) { sum += power(v); });
    const float inverse = 1.0F / warp_sum(sum);
    float* y = w.y + offset;
    row.each([&](int c, float v) { y[c] = power(v) * inverse; });
}

// A block has 32 columns of one outer index; warps share the rows.
__global__ void __launch_bounds__(kThreads) reduce(const __grid_constant__ ReduceWork w) {
    __shared__ double sums[kWarps][32];
    const unsigned lane = threadIdx.x & 31U;
    const unsigned warp = threadIdx.x / 32;
    const std::int64_t tiles = (w.inner + 31) / 32;
    const std::int64_t outer = blockIdx.x / tiles;
    const std::int64_t col = blockIdx.x % tiles * 32 + lane;
    double sum = 0.0;
    if (col < w.inner) {
        const float* x = w.x + outer * w.axis * w.inner + col;
        for (std::int64_t r = warp; r < w.axis; r += kWarps) sum += static_cast<double>(x[r * w.inner]);
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || col >= w.inner) return;
    for (unsigned k = 1; k < kWarps; ++k) sum += sums[k][lane];
    w.y[outer * w.inner + col] = static_cast<float>(sum * w.factor);
}

// V: float or float4.
template <class V, class Index>
__global__ void __launch_bounds__(kThreads) gather(const __grid_constant__ GatherWork w) {
    const std::int64_t inner = w.inner * 4 / static_cast<std::int64_t>(sizeof(V));
    const std::int64_t number = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    if (number >= w.outer * w.count * inner) return;
    const std::int64_t row = number / inner;
    const std::int64_t index = static_cast<const Index*>(w.indices)[row % w.count];
    const std::int64_t wanted = index < 0 ? index + w.axis : index;
    if (wanted < 0 || wanted >= w.axis) {
        atomicMin(w.status, w.code + static_cast<Status>(row % w.count));
        return;
    }
    const std::int64_t from = (row / w.count * w.axis + wanted) * inner + number % inner;
    reinterpret_cast<V*>(w.y)[number] = reinterpret_cast<const V*>(w.x)[from];
}

unsigned blocks_for(std::int64_t count, unsigned per_block) {
    return static_cast<unsigned>((count + per_block - 1) / per_block);
}

template <class V>
void gather_by(const GatherWork& w) {
    const auto count = w.outer * w.count * w.inner * 4 / static_cast<std::int64_t>(sizeof(V));
    const unsigned blocks = blocks_for(count, kThreads);
    if (w.index_type == DType::i32) {
        gather<V, std::int32_t><<<blocks, kThreads>>>(w);
    } else {
        gather<V, long long><<<blocks, kThreads>>>(w);
    }
}

}  // namespace

void start_layer_norm(const RowsWork& w) {
    layer_norm<<<blocks_for(w.rows, kWarps), kThreads>>>(w);
    imka::cuda::check(cudaGetLastError(), "starting the kernel for layer norms");
}

void start_softmax(const RowsWork& w) {
    softmax<<<blocks_for(w.rows, kWarps), kThreads>>>(w);
    imka::cuda::check(cudaGetLastError(), "starting the kernel for softmax");
}

void start_reduce(const ReduceWork& w) {
    const auto blocks = static_cast<unsigned>(w.outer * ((w.inner + 31) / 32));
    reduce<<<blocks, kThreads>>>(w);
    imka::cuda::check(cudaGetLastError(), "starting the kernel for sums");
}

void start_gather(const GatherWork& w) {
    const bool aligned =
        reinterpret_cast<std::uintptr_t>(w.x) % 16 == 0 && reinterpret_cast<std::uintptr_t>(w.y) % 16 == 0;
    w.inner % 4 == 0 && aligned ? gather_by<float4>(w) : gather_by<float>(w);
    imka::cuda::check(cudaGetLastError(), "starting the kernel for selections");
}

}  // namespace imka::graph::gpu

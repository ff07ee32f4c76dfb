// Matrix products in float. A block has 128 x 64 results, a thread 8 x 4 of them. Every result is one sum in
// the order of the inner index, so its bits do not depend on how many rows are multiplied.
#include <cuda_runtime.h>

#include <cstdint>

#include "imka/cuda/status.hpp"
#include "imka/graph/cuda/kernels.hpp"

namespace imka::graph::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 128;
constexpr int kCols = 64;
constexpr int kInner = 16;  // per step
constexpr int kPad = 4;     // keeps rows aligned to 16 bytes

struct Work : ProductWork {
    bool vectors_a;  // rows of a can be read four elements at a time
    bool vectors_b;
    bool vectors_c;
};

// N neighbours of a row of `size` elements from `first` on; 0 outside.
template <int N>
__device__ inline void load_run(const float* row, std::int64_t first, std::int64_t size, bool vectors,
                                float (&out)[N]) {
    if (vectors && row != nullptr && first + N <= size) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 v = *reinterpret_cast<const float4*>(row + first + i);
            out[i] = v.x;
            out[i + 1] = v.y;
            out[i + 2] = v.z;
            out[i + 3] = v.w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = row != nullptr && first + i < size ? row[first + i] : 0.0F;
}

// A step of both factors, in the registers of the threads that load it.
struct Step {
    float a[8];
    float b[4];
};

template <bool kTransposed>
__device__ inline Step load_step(const Work& w, std::int64_t row, std::int64_t col, std::int64_t k) {
    Step s;
    const int t = static_cast<int>(threadIdx.x);
    const std::int64_t r = row + t / 2;
    const float* a = w.a + std::int64_t{blockIdx.z} * w.a_stride;
    load_run(r < w.rows ? a + r * w.inner : nullptr, k + t % 2 * 8, w.inner, w.vectors_a, s.a);
    const float* b = w.b + std::int64_t{blockIdx.z} * w.b_stride;
    if constexpr (kTransposed) {
        const std::int64_t c = col + t / 4;
        load_run(c < w.cols ? b + c * w.inner : nullptr, k + t % 4 * 4, w.inner, w.vectors_b, s.b);
    } else {
        const std::int64_t i = k + t / 16;
        load_run(i < w.inner ? b + i * w.cols : nullptr, col + t % 16 * 4, w.cols, w.vectors_b, s.b);
    }
    return s;
}

template <bool kTransposed>
__device__ inline void store_step(const Step& s, float (&a)[kInner][kRows + kPad],
                                  float (&b)[kInner][kCols + kPad]) {
    const int t = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < 8; ++i) a[t % 2 * 8 + i][t / 2] = s.a[i];
    if constexpr (kTransposed) {
#pragma unroll
        for (int i = 0; i < 4; ++i) b[t % 4 * 4 + i][t / 4] = s.b[i];
    } else {
        *reinterpret_cast<float4*>(&b[t / 16][t % 16 * 4]) = make_float4(s.b[0], s.b[1], s.b[2], s.b[3]);
    }
}

__device__ inline void multiply_step(const float (&a)[kInner][kRows + kPad],
                                     const float (&b)[kInner][kCols + kPad], float (&sums)[8][4]) {
    const int first_row = static_cast<int>(threadIdx.x) / 16 * 8;
    const int first_col = static_cast<int>(threadIdx.x) % 16 * 4;
#pragma unroll
    for (int k = 0; k < kInner; ++k) {
        const float4 low = *reinterpret_cast<const float4*>(&a[k][first_row]);
        const float4 high = *reinterpret_cast<const float4*>(&a[k][first_row + 4]);
        const float4 right = *reinterpret_cast<const float4*>(&b[k][first_col]);
        const float left[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            sums[i][0] = __fmaf_rn(left[i], right.x, sums[i][0]);
            sums[i][1] = __fmaf_rn(left[i], right.y, sums[i][1]);
            sums[i][2] = __fmaf_rn(left[i], right.z, sums[i][2]);
            sums[i][3] = __fmaf_rn(left[i], right.w, sums[i][3]);
        }
    }
}

__device__ inline void store_sums(const Work& w, std::int64_t row, std::int64_t col,
                                  const float (&sums)[8][4]) {
    float* c = w.c + std::int64_t{blockIdx.z} * w.rows * w.cols;
    const std::int64_t first_col = col + threadIdx.x % 16 * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const std::int64_t r = row + threadIdx.x / 16 * 8 + i;
        if (r >= w.rows) return;
        float* out = c + r * w.cols + first_col;
        if (w.vectors_c && first_col + 4 <= w.cols) {
            *reinterpret_cast<float4*>(out) = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
            continue;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (first_col + j < w.cols) out[j] = sums[i][j];
        }
    }
}

template <bool kTransposed>
__global__ void __launch_bounds__(kThreads) products(const __grid_constant__ Work w) {
    __shared__ __align__(16) float a[kInner][kRows + kPad];
    __shared__ __align__(16) float b[kInner][kCols + kPad];
    const std::int64_t row = std::int64_t{blockIdx.x} * kRows;
    const std::int64_t col = std::int64_t{blockIdx.y} * kCols;
    float sums[8][4] = {};
    Step next = load_step<kTransposed>(w, row, col, 0);
    for (std::int64_t k = 0; k < w.inner; k += kInner) {
        store_step<kTransposed>(next, a, b);
        __syncthreads();
        if (k + kInner < w.inner) next = load_step<kTransposed>(w, row, col, k + kInner);
        multiply_step(a, b, sums);
        __syncthreads();
    }
    store_sums(w, row, col, sums);
}

bool is_aligned(const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

}  // namespace

void start_products(const ProductWork& work) {
    constexpr std::int64_t kMostBatch = 65535;  // of a grid
    for (std::int64_t first = 0; first < work.batch; first += kMostBatch) {
        Work w;
        static_cast<ProductWork&>(w) = work;
        w.a += first * work.a_stride;
        w.b += first * work.b_stride;
        w.c += first * work.rows * work.cols;
        w.vectors_a = work.inner % 4 == 0 && work.a_stride % 4 == 0 && is_aligned(w.a);
        w.vectors_b =
            (work.transposed ? work.inner : work.cols) % 4 == 0 && work.b_stride % 4 == 0 && is_aligned(w.b);
        w.vectors_c = work.cols % 4 == 0 && is_aligned(w.c);
        const auto batch = work.batch - first < kMostBatch ? work.batch - first : kMostBatch;
        const dim3 grid(static_cast<unsigned>((work.rows + kRows - 1) / kRows),
                        static_cast<unsigned>((work.cols + kCols - 1) / kCols), static_cast<unsigned>(batch));
        if (work.transposed) {
            products<true><<<grid, kThreads>>>(w);
        } else {
            products<false><<<grid, kThreads>>>(w);
        }
        imka::cuda::check(cudaGetLastError(), "starting the kernel for matrix products");
    }
}

}  // namespace imka::graph::gpu

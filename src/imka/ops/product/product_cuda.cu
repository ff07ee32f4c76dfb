// Matrix products in tiles of 128 x 64 results.
#include <cuda_runtime.h>

#include "imka/cuda/status.hpp"
#include "imka/ops/product/gpu_product.hpp"
#include "imka/ops/product/product_tile.cuh"

namespace imka::ops {
namespace {

struct Work : GpuProduct {
    bool vectors_a;  // rows of a can be read four elements at a time
    bool vectors_b;
    bool vectors_c;
};

// A step of both factors, in the registers of the threads that load it.
struct Step {
    float a[8];
    float b[4];
};

template <bool kTransposed>
__device__ inline Step load_step(const Work& w, std::int64_t row, std::int64_t col, std::int64_t k) {
    Step s;
    const std::int64_t r = row + tile::left_row();
    const float* a = nullptr;
    if (r < w.rows)
        a = w.a + std::int64_t{blockIdx.z} * w.a_stride +
            (w.a_rows != nullptr ? std::int64_t{w.a_rows[r]} : r) * w.inner;
    tile::load_run(a, k + tile::left_first(), w.inner, w.vectors_a, s.a);
    const float* b = w.b + std::int64_t{blockIdx.z} * w.b_stride;
    if constexpr (kTransposed) {
        const std::int64_t c = col + tile::right_col();
        tile::load_run(c < w.cols ? b + c * w.inner : nullptr, k + tile::right_first(), w.inner, w.vectors_b,
                       s.b);
    } else {
        const std::int64_t i = k + tile::inner_row();
        tile::load_run(i < w.inner ? b + i * w.cols : nullptr, col + tile::own_col(), w.cols, w.vectors_b,
                       s.b);
    }
    return s;
}

__device__ inline void store_sums(const Work& w, std::int64_t row, std::int64_t col, const tile::Sums& sums) {
    float* c = w.c + std::int64_t{blockIdx.z} * w.rows * w.cols;
    const auto left = static_cast<int>(min(w.cols - col, std::int64_t{tile::kCols}));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const std::int64_t r = row + tile::own_row() + i;
        if (r >= w.rows) return;
        tile::store_run(sums[i], tile::own_col(), left, w.vectors_c, c + r * w.cols + col);
    }
}

template <bool kTransposed>
__global__ void __launch_bounds__(tile::kThreads) products(const __grid_constant__ Work w) {
    __shared__ __align__(16) tile::Left a;
    __shared__ __align__(16) tile::Right b;
    const std::int64_t row = std::int64_t{blockIdx.x} * tile::kRows;
    const std::int64_t col = std::int64_t{blockIdx.y} * tile::kCols;
    tile::Sums sums = {};
    Step next = load_step<kTransposed>(w, row, col, 0);
    for (std::int64_t k = 0; k < w.inner; k += tile::kInner) {
        tile::store_left(next.a, a);
        if constexpr (kTransposed) {
            tile::store_columns(next.b, b);
        } else {
            tile::store_rows(next.b, b);
        }
        __syncthreads();
        if (k + tile::kInner < w.inner) next = load_step<kTransposed>(w, row, col, k + tile::kInner);
        tile::multiply_step(a, b, sums);
        __syncthreads();
    }
    store_sums(w, row, col, sums);
}

}  // namespace

void start_products(const GpuProduct& product) {
    constexpr std::int64_t kMostBatch = 65535;  // of a grid
    for (std::int64_t first = 0; first < product.batch; first += kMostBatch) {
        Work w;
        static_cast<GpuProduct&>(w) = product;
        w.a += first * w.a_stride;
        w.b += first * w.b_stride;
        w.c += first * w.rows * w.cols;
        w.vectors_a = w.inner % 4 == 0 && w.a_stride % 4 == 0 && tile::is_aligned(w.a);
        w.vectors_b =
            (w.transposed ? w.inner : w.cols) % 4 == 0 && w.b_stride % 4 == 0 && tile::is_aligned(w.b);
        w.vectors_c = w.cols % 4 == 0 && tile::is_aligned(w.c);
        const auto batch = product.batch - first < kMostBatch ? product.batch - first : kMostBatch;
        const dim3 grid(static_cast<unsigned>((w.rows + tile::kRows - 1) / tile::kRows),
                        static_cast<unsigned>((w.cols + tile::kCols - 1) / tile::kCols),
                        static_cast<unsigned>(batch));
        if (w.transposed) {
            products<true><<<grid, tile::kThreads>>>(w);
        } else {
            products<false><<<grid, tile::kThreads>>>(w);
        }
        cuda::check(cudaGetLastError(), "starting the kernel for matrix products");
    }
}

}  // namespace imka::ops

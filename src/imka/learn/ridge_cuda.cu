// Sums over blocks of rows, the system of a ridge fit and its predictions.
#include <cuda_runtime.h>

#include <algorithm>

#include "imka/cuda/status.hpp"
#include "imka/learn/ridge_work.hpp"

namespace imka::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kRowsPerWarp = 4;

unsigned grid_for(std::size_t count) {
    return static_cast<unsigned>(std::min<std::size_t>((count + kThreads - 1) / kThreads, 1U << 20U));
}

__global__ void __launch_bounds__(kThreads) add_triangle(const float* block, std::size_t n, double* sums) {
    for (std::size_t col = blockIdx.y; col < n; col += gridDim.y) {
        const std::size_t row = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
        if (row >= col && row < n) sums[col * n + row] += static_cast<double>(block[col * n + row]);
    }
}

__global__ void __launch_bounds__(kThreads) add_values(const float* block, std::size_t count, double* sums) {
    const std::size_t step = std::size_t{gridDim.x} * kThreads;
    for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step)
        sums[i] += static_cast<double>(block[i]);
}

__global__ void __launch_bounds__(kThreads) fill_system(const __grid_constant__ SystemWork w) {
    const std::size_t d = w.features;
    const std::size_t n = d + (w.intercept ? 1 : 0);
    const std::size_t row = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
    if (row >= n) return;
    for (std::size_t col = blockIdx.y; col < n; col += gridDim.y) {
        if (col > row) break;
        double value = row < d ? w.products[col * d + row] : col < d ? w.columns[col] : w.totals[0];
        if (row == col) value += row < d ? w.alpha : w.intercept_alpha;
        w.a[col * n + row] = value;
    }
    if (blockIdx.y != 0) return;
    for (std::size_t k = 0; k < w.outputs; ++k)
        w.b[k * n + row] = row < d ? w.columns[(1 + k) * d + row] : w.totals[1 + k];
}

// A warp computes four rows and reads the weights once for all of them. The order of a sum depends only on
// the number of features.
__global__ void __launch_bounds__(kThreads) predict_rows(const __grid_constant__ PredictWork w) {
    const std::size_t first = (std::size_t{blockIdx.x} * kWarps + threadIdx.x / 32) * kRowsPerWarp;
    const unsigned lane = threadIdx.x % 32;
    if (first >= w.rows) return;
    const auto count = static_cast<unsigned>(
        min(static_cast<unsigned long long>(kRowsPerWarp), static_cast<unsigned long long>(w.rows - first)));
    const float* z = w.z + first * w.features;
    for (std::size_t k = 0; k < w.outputs; ++k) {
        double sums[kRowsPerWarp] = {};
        for (std::size_t c = lane; c < w.features; c += 32) {
            const double weight = w.weights[k * w.features + c];
#pragma unroll
            for (unsigned r = 0; r < kRowsPerWarp; ++r) {
                const float value = r < count ? z[r * w.features + c] : 0.0F;
                sums[r] = __fma_rn(static_cast<double>(value), weight, sums[r]);
            }
        }
#pragma unroll
        for (unsigned r = 0; r < kRowsPerWarp; ++r) {
#pragma unroll
            for (int i = 16; i > 0; i /= 2) sums[r] += __shfl_xor_sync(0xffffffffU, sums[r], i);
            if (lane == 0 && r < count) w.out[(first + r) * w.outputs + k] = w.intercept[k] + sums[r];
        }
    }
}

}  // namespace

void fill_zero(double* values, std::size_t count) {
    cuda::check(cudaMemsetAsync(values, 0, count * sizeof(double)), "clearing memory of the GPU");
}

void add_lower(const float* block, std::size_t n, double* sums) {
    const dim3 grid(static_cast<unsigned>((n + kThreads - 1) / kThreads),
                    static_cast<unsigned>(std::min<std::size_t>(n, 65535)));
    add_triangle<<<grid, kThreads>>>(block, n, sums);
    cuda::check(cudaGetLastError(), "starting the kernel that adds products");
}

void add_all(const float* block, std::size_t count, double* sums) {
    add_values<<<grid_for(count), kThreads>>>(block, count, sums);
    cuda::check(cudaGetLastError(), "starting the kernel that adds products");
}

void assemble(const SystemWork& work) {
    const std::size_t n = work.features + 1;
    const dim3 grid(static_cast<unsigned>((n + kThreads - 1) / kThreads),
                    static_cast<unsigned>(std::min<std::size_t>(n, 65535)));
    fill_system<<<grid, kThreads>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel that assembles a system");
}

void predict(const PredictWork& work) {
    if (work.rows == 0) return;
    const std::size_t rows = std::size_t{kWarps} * kRowsPerWarp;
    predict_rows<<<static_cast<unsigned>((work.rows + rows - 1) / rows), kThreads>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel for predictions");
}

}  // namespace imka::gpu

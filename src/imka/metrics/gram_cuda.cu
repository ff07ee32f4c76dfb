// Kernels of gram_gpu.cpp.
#include <cuda_runtime.h>

#include <algorithm>

#include "imka/cuda/status.hpp"
#include "imka/metrics/gram_gpu.hpp"

namespace imka::gpu {
namespace {

constexpr unsigned kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    widen_values(const float* from, std::size_t rows, std::size_t cols, double* to) {
    const std::size_t step = std::size_t{gridDim.x} * kThreads;
    for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < rows * cols; i += step)
        to[i] = static_cast<double>(from[i % rows * cols + i / rows]);
}

__device__ inline double block_sum(double value) {
    __shared__ double parts[kThreads];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    const double sum = parts[0];
    __syncthreads();
    return sum;
}

__global__ void __launch_bounds__(kThreads)
    sum_columns(const double* exact, const double* products, std::size_t n, double* sums) {
    const std::size_t first = std::size_t{blockIdx.x} * kGramErrorBlock;
    double difference = 0.0;
    double size = 0.0;
    for (std::size_t col = first; col < n && col < first + kGramErrorBlock; ++col) {
        for (std::size_t row = threadIdx.x; row < n; row += kThreads) {
            const double k = exact[col * n + row];
            const double e = k - 0.5 * (products[col * n + row] + products[row * n + col]);
            difference += e * e;
            size += k * k;
        }
    }
    difference = block_sum(difference);
    size = block_sum(size);
    if (threadIdx.x != 0) return;
    sums[2 * blockIdx.x] = difference;
    sums[2 * blockIdx.x + 1] = size;
}

}  // namespace

void widen(const float* from, std::size_t rows, std::size_t cols, double* to) {
    const std::size_t blocks = (rows * cols + kThreads - 1) / kThreads;
    widen_values<<<static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, 1U << 20U)), kThreads>>>(
        from, rows, cols, to);
    cuda::check(cudaGetLastError(), "starting the kernel that widens features");
}

void sum_errors(const double* exact, const double* products, std::size_t n, double* sums) {
    const auto blocks = static_cast<unsigned>((n + kGramErrorBlock - 1) / kGramErrorBlock);
    sum_columns<<<blocks, kThreads>>>(exact, products, n, sums);
    cuda::check(cudaGetLastError(), "starting the kernel for Gram errors");
}

}  // namespace imka::gpu

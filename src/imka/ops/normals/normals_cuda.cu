// Standard normals in bulk on a GPU: one Philox block of four numbers per thread and step.
#include <cuda_runtime.h>

#include <algorithm>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/random.cuh"
#include "imka/cuda/status.hpp"
#include "imka/ops/normals/variants.hpp"

namespace imka::ops {
namespace {

constexpr unsigned kThreads = 256;

__global__ void fill_blocks(const __grid_constant__ cuda::PhiloxKeys keys, std::uint32_t stream,
                            std::uint64_t first_block, std::size_t size, float* out) {
    const std::size_t step = std::size_t{gridDim.x} * kThreads;
    for (std::size_t b = std::size_t{blockIdx.x} * kThreads + threadIdx.x; 4 * b < size; b += step) {
        const float4 z = cuda::normal_block(keys, first_block + b, stream);
        if (4 * b + 4 <= size) {
            reinterpret_cast<float4*>(out)[b] = z;
        } else {
            const float rest[] = {z.x, z.y, z.z};
            for (std::size_t i = 0; 4 * b + i < size; ++i) out[4 * b + i] = rest[i];
        }
    }
}

}  // namespace

void fill_normal_on_gpu(const NormalsRange& range, int gpu, cuda::Buffer<float>& out) {
    if (out.size() == 0) return;
    cuda::select_gpu(gpu);
    const std::size_t blocks = (out.size() + 3) / 4;
    const std::size_t grid = std::min<std::size_t>((blocks + kThreads - 1) / kThreads, 132 * 16);
    fill_blocks<<<static_cast<unsigned>(grid), kThreads>>>(cuda::philox_keys(range.seed),
                                                           static_cast<std::uint32_t>(range.stream),
                                                           range.first / 4, out.size(), out.data());
    cuda::check(cudaGetLastError(), "starting a kernel for normals");
    cuda::check(cudaDeviceSynchronize(), "drawing normals on the GPU");
}

}  // namespace imka::ops

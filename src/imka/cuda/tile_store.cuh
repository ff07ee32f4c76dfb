// Copies of tiles from shared memory to a matrix in global memory by the copy engine of Hopper and later
// GPUs: threads do not wait for the writes, and the rows of a tile are written as whole lines of memory.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "imka/cuda/status.hpp"

namespace imka::cuda {

// Whether the code of the kernel for this GPU has these copies: not if it was compiled for older GPUs.
inline bool stores_tiles(const void* kernel) {
    cudaFuncAttributes compiled{};
    check(cudaFuncGetAttributes(&compiled, kernel), "querying the architecture of a kernel");
    return compiled.ptxVersion >= 90;
}

// Rows of floats on a GPU. The first value and the rows have addresses that are multiples of 16.
struct StoredRows {
    float* values = nullptr;
    std::size_t rows = 0;
    std::size_t cols = 0;
    std::size_t stride = 0;
};

// Describes tiles of tile_rows x tile_cols values of a matrix; tile_cols: 16 or 32.
inline CUtensorMap stored_tiles(const StoredRows& to, unsigned tile_rows, unsigned tile_cols) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
        "loading the driver function for tile copies");
    check(result == cudaDriverEntryPointSuccess ? cudaSuccess : cudaErrorCallRequiresNewerDriver,
          "loading the driver function for tile copies");
    const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
    const cuuint64_t sizes[] = {to.cols, to.rows};
    const cuuint64_t strides[] = {to.stride * sizeof(float)};
    const cuuint32_t box[] = {tile_cols, tile_rows};
    const cuuint32_t steps[] = {1, 1};
    CUtensorMap map;
    const auto status = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, to.values, sizes, strides, box,
                               steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                               tile_cols == 32 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    check(status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "describing a matrix to the GPU");
    return map;
}

// Position of chunk `chunk`, four values of a row, among the kChunks chunks of the row in shared memory.
// Tiles with rows of eight chunks begin at multiples of 1024 bytes.
template <unsigned kChunks>
__device__ inline unsigned stored_chunk(unsigned row, unsigned chunk) {
    return kChunks == 8 ? chunk ^ (row % 8) : chunk;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// Called by every thread that wrote to a tile, before another thread starts to store it.
__device__ inline void show_tile_to_copies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Called by one thread; parts of the tile outside the matrix are not written.
__device__ inline void store_tile(const CUtensorMap& map, std::uint32_t from, std::uint32_t row,
                                  std::uint32_t col) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
                 "r"(col), "r"(row), "r"(from)
                 : "memory");
}
__device__ inline void commit_stored_tiles() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until the shared memory of all tiles that this thread stored can be used again.
__device__ inline void wait_for_stored_tiles() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
#else
// Code for GPUs before Hopper: never called, because there are no maps.
__device__ inline void show_tile_to_copies() {}
__device__ inline void store_tile(const CUtensorMap&, std::uint32_t, std::uint32_t, std::uint32_t) {}
__device__ inline void commit_stored_tiles() {}
__device__ inline void wait_for_stored_tiles() {}
#endif

}  // namespace imka::cuda

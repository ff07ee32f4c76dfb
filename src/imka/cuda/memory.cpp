#include "imka/cuda/memory.hpp"

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/status.hpp"

#if IMKA_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace imka::cuda {

#if IMKA_HAVE_CUDA
Memory::Memory(int gpu, std::size_t bytes) : gpu_(gpu) {
    select_gpu(gpu);
    if (bytes == 0) return;
    check_allocation(cudaMalloc(&data_, bytes), gpu, bytes);
    bytes_ = bytes;
}

Memory::~Memory() {
    if (data_ != nullptr) cudaFree(data_);
}

void Memory::upload(const void* from, std::size_t bytes) {
    assert(bytes <= bytes_);
    if (bytes > 0) check(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "copying to the GPU");
}

void Memory::download(void* to, std::size_t bytes) const {
    assert(bytes <= bytes_);
    if (bytes > 0) check(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost), "copying from the GPU");
}

void Memory::upload_rows(const void* from, const Rows& rows) {
    assert(rows.count * rows.bytes <= bytes_);
    if (rows.count * rows.bytes == 0) return;
    check(cudaMemcpy2D(data_, rows.bytes, from, rows.stride, rows.bytes, rows.count, cudaMemcpyHostToDevice),
          "copying to the GPU");
}

void Memory::download_rows(void* to, const Rows& rows) const {
    assert(rows.count * rows.bytes <= bytes_);
    if (rows.count * rows.bytes == 0) return;
    check(cudaMemcpy2D(to, rows.stride, data_, rows.bytes, rows.bytes, rows.count, cudaMemcpyDeviceToHost),
          "copying from the GPU");
}
#else
Memory::Memory(int gpu, std::size_t) : gpu_(gpu) {
    require_gpu(gpu);
}

Memory::~Memory() = default;

void Memory::upload(const void*, std::size_t) {
    require_gpu(gpu_);
}

void Memory::download(void*, std::size_t) const {
    require_gpu(gpu_);
}

void Memory::upload_rows(const void*, const Rows&) {
    require_gpu(gpu_);
}

void Memory::download_rows(void*, const Rows&) const {
    require_gpu(gpu_);
}
#endif

}  // namespace imka::cuda

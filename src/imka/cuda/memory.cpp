#include "imka/cuda/memory.hpp"

#include <cstdint>
#include <limits>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/status.hpp"

#if IMKA_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace imka::cuda {

#if IMKA_HAVE_CUDA
namespace {

// The default pool, set up to keep freed memory.
cudaMemPool_t pool_of(int gpu) {
    cudaMemPool_t pool = nullptr;
    check(cudaDeviceGetDefaultMemPool(&pool, gpu), "finding the memory pool of the GPU");
    auto kept = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept),
          "setting up the memory pool of the GPU");
    return pool;
}

}  // namespace

Memory::Memory(int gpu, std::size_t bytes, MemorySource source) : gpu_(gpu), source_(source) {
    select_gpu(gpu);
    if (bytes == 0) return;
    check_allocation(source == MemorySource::own
                         ? cudaMalloc(&data_, bytes)
                         : cudaMallocFromPoolAsync(&data_, bytes, pool_of(gpu), nullptr),
                     gpu, bytes);
    bytes_ = bytes;
}

Memory::~Memory() {
    if (data_ == nullptr) return;
    cudaSetDevice(gpu_);  // the stream that uses the memory is one of this GPU
    source_ == MemorySource::own ? cudaFree(data_) : cudaFreeAsync(data_, nullptr);
}

// cudaMemcpy may return before the values are on the GPU; streams of other threads would not wait for them.
void Memory::upload(const void* from, std::size_t bytes) {
    assert(bytes <= bytes_);
    if (bytes == 0) return;
    check(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "copying to the GPU");
    wait();
}

void Memory::download(void* to, std::size_t bytes) const {
    assert(bytes <= bytes_);
    if (bytes > 0) check(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost), "copying from the GPU");
}

// The driver copies row by row even without gaps, which takes 30 ns per row.
void Memory::upload_rows(const void* from, const Rows& rows) {
    assert(rows.count * rows.bytes <= bytes_);
    if (rows.count * rows.bytes == 0) return;
    if (rows.stride == rows.bytes) return upload(from, rows.count * rows.bytes);
    check(cudaMemcpy2D(data_, rows.bytes, from, rows.stride, rows.bytes, rows.count, cudaMemcpyHostToDevice),
          "copying to the GPU");
    wait();
}

void Memory::download_rows(void* to, const Rows& rows) const {
    assert(rows.count * rows.bytes <= bytes_);
    if (rows.count * rows.bytes == 0) return;
    if (rows.stride == rows.bytes) return download(to, rows.count * rows.bytes);
    check(cudaMemcpy2D(to, rows.stride, data_, rows.bytes, rows.bytes, rows.count, cudaMemcpyDeviceToHost),
          "copying from the GPU");
}

void wait() {
    check(cudaStreamSynchronize(nullptr), "waiting for the GPU");
}

void download(const void* from, std::size_t bytes, void* to) {
    if (bytes > 0) check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copying from the GPU");
}

void copy_rows(const RowCopy& c) {
    if (c.count * c.bytes == 0) return;
    check(cudaMemcpy2DAsync(c.to, c.to_stride, c.from, c.from_stride, c.bytes, c.count,
                            cudaMemcpyDeviceToDevice, nullptr),
          "copying on the GPU");
}
#else
Memory::Memory(int gpu, std::size_t, MemorySource source) : gpu_(gpu), source_(source) {
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

void wait() {
    require_gpu(0);
}

void download(const void*, std::size_t, void*) {
    require_gpu(0);
}

void copy_rows(const RowCopy&) {
    require_gpu(0);
}
#endif

}  // namespace imka::cuda

// Memory on a GPU with one owner. Copies are synchronous. The work of a thread is in the order of its own
// default stream; threads that share memory wait for each other's work.
#pragma once

#include <cassert>
#include <cstddef>
#include <span>
#include <utility>

#include "imka/base/matrix.hpp"

namespace imka::cuda {

// Rows in the memory of a GPU, without gaps: inputs and outputs of products with one matrix.
struct ProductRows {
    const float* x = nullptr;
    float* y = nullptr;
    std::size_t rows = 0;
};

// own: allocated and freed by the driver, which waits for the GPU. pooled: from a pool that keeps freed
// memory for later and does not wait.
enum class MemorySource { own, pooled };

class Memory {
public:
    Memory() = default;
    // Error{missing_part} without such a GPU or without enough free memory on it. Not initialised.
    Memory(int gpu, std::size_t bytes, MemorySource source = MemorySource::own);
    ~Memory();
    Memory(Memory&& other) noexcept { swap(other); }
    Memory& operator=(Memory&& other) noexcept {
        swap(other);
        return *this;
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    void upload(const void* from, std::size_t bytes);
    void download(void* to, std::size_t bytes) const;
    // Rows without gaps on the GPU, `stride` bytes apart on the host.
    struct Rows {
        std::size_t count = 0;
        std::size_t bytes = 0;  // of a row
        std::size_t stride = 0;
    };
    void upload_rows(const void* from, const Rows& rows);
    void download_rows(void* to, const Rows& rows) const;

private:
    void swap(Memory& other) noexcept {
        std::swap(gpu_, other.gpu_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(source_, other.source_);
    }

    int gpu_ = 0;
    MemorySource source_ = MemorySource::own;
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

// Waits for the work of the calling thread on its current GPU.
void wait();

// Copies from memory of the current GPU to the host.
void download(const void* from, std::size_t bytes, void* to);

// Copies `count` rows of `bytes` within the current GPU; does not wait.
struct RowCopy {
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t from_stride = 0;  // bytes
    std::size_t to_stride = 0;
};
void copy_rows(const RowCopy& copy);

// `count` values of a plain type.
template <class T>
class Buffer {
public:
    Buffer() = default;
    Buffer(int gpu, std::size_t count, MemorySource source = MemorySource::own)
        : memory_(gpu, count * sizeof(T), source), size_(count) {}
    Buffer(int gpu, std::span<const T> values, MemorySource source = MemorySource::own)
        : Buffer(gpu, values.size(), source) {
        upload(values);
    }

    T* data() const { return static_cast<T*>(memory_.data()); }
    std::size_t size() const { return size_; }
    void upload(std::span<const T> values) {
        assert(values.size() <= size_);
        memory_.upload(values.data(), values.size_bytes());
    }
    void download(std::span<T> values) const {
        assert(values.size() <= size_);
        memory_.download(values.data(), values.size_bytes());
    }
    // A matrix view on the host, rows without gaps on the GPU.
    void upload_rows(MatrixView<const T> from) {
        memory_.upload_rows(from.data(), {from.rows(), from.cols() * sizeof(T), from.stride() * sizeof(T)});
    }
    void download_rows(MatrixView<T> to) const {
        memory_.download_rows(to.data(), {to.rows(), to.cols() * sizeof(T), to.stride() * sizeof(T)});
    }

private:
    Memory memory_;
    std::size_t size_ = 0;
};

}  // namespace imka::cuda

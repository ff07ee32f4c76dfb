// Dense row-major matrices and views of them. A view does not own memory; a matrix converts to one
// implicitly.
#pragma once

#include <cassert>
#include <cstddef>
#include <limits>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace imka {

template <class T>
class MatrixView {
public:
    MatrixView() = default;
    MatrixView(T* data, std::size_t rows, std::size_t cols, std::size_t stride)
        : data_(data), rows_(rows), cols_(cols), stride_(stride) {
        assert(stride >= cols);
    }
    MatrixView(T* data, std::size_t rows, std::size_t cols) : MatrixView(data, rows, cols, cols) {}
    // A view of mutable values converts to a view of constant values.
    template <class U>
    requires(std::is_same_v<const U, T>) MatrixView(MatrixView<U> other)
        : MatrixView(other.data(), other.rows(), other.cols(), other.stride()) {}

    T* data() const { return data_; }
    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return cols_; }
    std::size_t stride() const { return stride_; }
    T& operator()(std::size_t r, std::size_t c) const {
        assert(r < rows_ && c < cols_);
        return data_[r * stride_ + c];
    }
    std::span<T> row(std::size_t r) const {
        assert(r < rows_);
        return {data_ + r * stride_, cols_};
    }
    MatrixView slice_rows(std::size_t first, std::size_t count) const {
        assert(first + count <= rows_);
        return {data_ + first * stride_, count, cols_, stride_};
    }
    MatrixView slice_cols(std::size_t first, std::size_t count) const {
        assert(first + count <= cols_);
        return {data_ + first, rows_, count, stride_};
    }

private:
    T* data_ = nullptr;
    std::size_t rows_ = 0;
    std::size_t cols_ = 0;
    std::size_t stride_ = 0;
};

// Memory for large matrices: aligned to huge pages and, if available, in them, since the first access to many
// small pages costs more than most computations on them. Free with release_pages.
void* allocate_pages(std::size_t bytes);
void release_pages(void* memory) noexcept;
inline constexpr std::size_t kLeastPages = std::size_t{8} << 20U;  // bytes; smaller blocks do not benefit

// Storage on cache-line boundaries, so that vector loads do not straddle lines.
template <class T>
struct AlignedAllocator {
    using value_type = T;
    static constexpr std::align_val_t kAlignment{64};
    AlignedAllocator() = default;
    template <class U>
    AlignedAllocator(const AlignedAllocator<U>&) noexcept {}
    T* allocate(std::size_t n) {
        if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
        const std::size_t bytes = n * sizeof(T);
        return static_cast<T*>(bytes >= kLeastPages ? allocate_pages(bytes)
                                                    : ::operator new(bytes, kAlignment));
    }
    void deallocate(T* p, std::size_t n) noexcept {
        n * sizeof(T) >= kLeastPages ? release_pages(p) : ::operator delete(p, kAlignment);
    }
    template <class U>
    bool operator==(const AlignedAllocator<U>&) const {
        return true;
    }
};

template <class T>
class Matrix {
public:
    Matrix() = default;
    Matrix(std::size_t rows, std::size_t cols) : values_(count(rows, cols)), rows_(rows), cols_(cols) {}

    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return cols_; }
    T* data() { return values_.data(); }
    const T* data() const { return values_.data(); }
    T& operator()(std::size_t r, std::size_t c) { return view()(r, c); }
    const T& operator()(std::size_t r, std::size_t c) const { return view()(r, c); }
    std::span<T> row(std::size_t r) & { return view().row(r); }
    std::span<const T> row(std::size_t r) const& { return view().row(r); }
    std::span<const T> row(std::size_t r) const&& = delete;
    std::span<T> values() & { return values_; }
    std::span<const T> values() const& { return values_; }
    std::span<const T> values() const&& = delete;
    // A matrix converts to a view. A temporary does not, because the view could dangle;
    // f(make_matrix().view()) is safe if f does not keep the view.
    operator MatrixView<T>() & { return view(); }
    operator MatrixView<const T>() const& { return view(); }
    operator MatrixView<T>() && = delete;
    operator MatrixView<const T>() const&& = delete;
    MatrixView<T> view() { return {values_.data(), rows_, cols_}; }
    MatrixView<const T> view() const { return {values_.data(), rows_, cols_}; }
    // Keeps existing rows; new rows are zero.
    void resize_rows(std::size_t rows) {
        values_.resize(count(rows, cols_));
        rows_ = rows;
    }
    bool operator==(const Matrix& other) const {
        return rows_ == other.rows_ && cols_ == other.cols_ && values_ == other.values_;
    }

private:
    static std::size_t count(std::size_t rows, std::size_t cols) {
        if (cols > 0 && rows > std::numeric_limits<std::size_t>::max() / cols)
            throw std::bad_array_new_length();
        return rows * cols;
    }

    std::vector<T, AlignedAllocator<T>> values_;
    std::size_t rows_ = 0;
    std::size_t cols_ = 0;
};

// Error{bad_config} naming `what` if rows x cols values of value_bytes each exceed this machine's memory.
// Fails early instead of crashing later.
void check_fits_memory(double rows, double cols, std::size_t value_bytes, std::string_view what);

}  // namespace imka

// NumPy arrays (and everything with DLPack) as views, and matrices as NumPy arrays, without copies.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

#include "imka/base/matrix.hpp"

namespace imka::python {

namespace nb = nanobind;

using FloatRows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using NumpyMatrix = nb::ndarray<nb::numpy, T, nb::ndim<2>>;
template <class T>
using NumpyVector = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

inline MatrixView<const float> view_of(const FloatRows& array) {
    return {array.data(), array.shape(0), array.shape(1)};
}

// A capsule that owns the value.
template <class T>
std::pair<T*, nb::capsule> owned(T value) {
    auto owner = std::make_unique<T>(std::move(value));
    nb::capsule capsule(owner.get(), [](void* p) noexcept { delete static_cast<T*>(p); });
    return {owner.release(), std::move(capsule)};
}

// A matrix with uninitialised values: setting a large matrix to zero would take a large part of the time of
// the function that fills it.
template <class T>
class UnsetMatrix {
public:
    UnsetMatrix(std::size_t rows, std::size_t cols)
        : rows_(rows), cols_(cols), values_(AlignedAllocator<T>().allocate(rows * cols), Free{rows * cols}) {}
    MatrixView<T> view() const { return {values_.get(), rows_, cols_}; }
    T* data() const { return values_.get(); }
    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return cols_; }

private:
    struct Free {
        std::size_t count = 0;
        void operator()(T* values) const { AlignedAllocator<T>().deallocate(values, count); }
    };
    std::size_t rows_;
    std::size_t cols_;
    std::unique_ptr<T[], Free> values_;
};

template <class T>
NumpyMatrix<T> to_numpy(UnsetMatrix<T> matrix) {
    const auto [values, owner] = owned(std::move(matrix));
    return {values->data(), {values->rows(), values->cols()}, owner};
}

template <class T>
NumpyMatrix<T> to_numpy(Matrix<T> matrix) {
    const auto [values, owner] = owned(std::move(matrix));
    return {values->data(), {values->rows(), values->cols()}, owner};
}

template <class T>
NumpyVector<T> to_numpy(std::vector<T> vector) {
    const auto [values, owner] = owned(std::move(vector));
    return {values->data(), {values->size()}, owner};
}

}  // namespace imka::python

// Walsh-Hadamard transforms as plain loops over pairs. Every vector version gives the same bits; this version
// runs where there are no vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/ops/fwht/fwht.hpp"

namespace imka::plain {

// Smaller blocks are computed in groups of this many rows: the most values that fit in registers.
inline constexpr std::size_t kGroup = 256;

// Butterflies of one level: (a, b) -> (a + b, a - b) for values `half` apart.
template <class T>
void butterflies(T* values, std::size_t n, std::size_t half) {
    for (std::size_t start = 0; start < n; start += 2 * half) {
        T* low = values + start;
        T* high = low + half;
        for (std::size_t j = 0; j < half; ++j) {
            const T a = low[j];
            const T b = high[j];
            low[j] = a + b;
            high[j] = a - b;
        }
    }
}

template <class T>
void ascend(T* values, std::size_t n) {
    for (std::size_t half = 1; half < n; half *= 2) butterflies(values, n, half);
}

template <class T>
void descend(T* values, std::size_t n) {
    for (std::size_t half = n / 2; half > 0; half /= 2) butterflies(values, n, half);
}

inline void multiply(const float* by, std::vector<float>& values) {
    for (std::size_t j = 0; j < values.size(); ++j) values[j] *= by[j];
}

// project() of sign_hadamard.hpp.
inline void project(const SignHadamard& matrix, MatrixView<const float> x, MatrixView<float> u) {
    std::vector<float> values(matrix.n);
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (std::size_t first = 0; first < matrix.m; first += matrix.n) {
            std::fill(std::copy(x.row(r).begin(), x.row(r).end(), values.begin()), values.end(), 0.0F);
            multiply(&matrix.first[first], values);
            ascend(values.data(), values.size());
            multiply(&matrix.second[first], values);
            descend(values.data(), values.size());
            multiply(&matrix.third[first], values);
            ascend(values.data(), values.size());
            multiply(&matrix.scale[first], values);
            std::copy_n(values.data(), std::min(matrix.n, matrix.m - first), u.row(r).data() + first);
        }
    }
}

}  // namespace imka::plain

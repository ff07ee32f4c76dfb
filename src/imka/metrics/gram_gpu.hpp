// The error of a Gram matrix on a GPU: products in double by cuBLAS.
#pragma once

#include <cstddef>

#include "imka/base/matrix.hpp"

namespace imka {

// Sums over blocks of kGramErrorBlock columns, for gram_error.
inline constexpr std::size_t kGramErrorBlock = 32;
struct GramErrorSums {
    double difference = 0.0;  // |K - (Z Z'ᵀ + Z' Zᵀ) / 2|²
    double size = 0.0;        // |K|²
};
// As gram_error; z and other are the same rows for one map.
GramErrorSums gram_error_on_gpu(MatrixView<const double> exact, MatrixView<const float> z,
                                MatrixView<const float> other, int gpu);

// Kernels of it; pointers are to memory of the GPU.
namespace gpu {
// to(r, c) = from(r, c): row-major floats to column-major doubles.
void widen(const float* from, std::size_t rows, std::size_t cols, double* to);
// sums[2 b], sums[2 b + 1]: difference and size of block b of columns.
void sum_errors(const double* exact, const double* products, std::size_t n, double* sums);
}  // namespace gpu

}  // namespace imka

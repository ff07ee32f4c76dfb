// The error of a Gram matrix on a GPU: products in double by cuBLAS.
#pragma once

#include <cstddef>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/cuda/memory.hpp"

namespace imka {

struct GramErrorSums {
    double difference = 0.0;  // |K - (Z Z'ᵀ + Z' Zᵀ) / 2|²
    double size = 0.0;        // |K|²
};
// Error{numeric} if K is zero.
double relative_error(const GramErrorSums& sums);

// Whether the errors are computed on a GPU, which needs cuBLAS.
bool gram_errors_on_gpu(const Exec& exec);

// An exact matrix in GPU memory. Thread-safe.
class GpuGramError {
public:
    GpuGramError(MatrixView<const double> exact, int gpu);
    // As gram_error for features in GPU memory: contiguous, one row per row of the matrix. other: z if there
    // is only one map.
    double error(const float* z, const float* other, std::size_t features) const;

private:
    int gpu_;
    std::size_t n_;
    cuda::Buffer<double> exact_;
};

// CUDA kernels of GpuGramError; pointers are to GPU memory.
namespace gpu {
inline constexpr std::size_t kGramErrorBlock = 32;  // columns
// to(r, c) = from(r, c): row-major floats to column-major doubles.
void widen(const float* from, std::size_t rows, std::size_t cols, double* to);
// sums[2 b], sums[2 b + 1]: difference and size of block b of columns.
void sum_errors(const double* exact, const double* products, std::size_t n, double* sums);
}  // namespace gpu

}  // namespace imka

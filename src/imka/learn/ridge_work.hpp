// Kernels of ridge_gpu.cpp. All pointers are to GPU memory; work runs in order in the thread's stream.
#pragma once

#include <cstddef>

namespace imka::gpu {

void fill_zero(double* values, std::size_t count);
// sums += block for the lower triangle of a column-major n x n matrix.
void add_lower(const float* block, std::size_t n, double* sums);
void add_all(const float* block, std::size_t count, double* sums);

// The system of a fit, column-major: a is n x n (lower triangle), b is n x outputs, n = features + 1 with an
// intercept.
struct SystemWork {
    const double* products = nullptr;  // ZᵀZ
    const double* columns = nullptr;   // Zᵀ [1, y]
    const double* totals = nullptr;    // [rows, sum of each target]
    std::size_t features = 0;
    std::size_t outputs = 0;
    bool intercept = false;
    double alpha = 0.0;
    double intercept_alpha = 0.0;
    double* a = nullptr;
    double* b = nullptr;
};
void assemble(const SystemWork& work);

// out(r, k) = intercept[k] + z_r w_k in double; weights are outputs x features.
struct PredictWork {
    const float* z = nullptr;
    std::size_t rows = 0;
    std::size_t features = 0;
    std::size_t outputs = 0;
    const double* weights = nullptr;
    const double* intercept = nullptr;
    double* out = nullptr;
};
void predict(const PredictWork& work);

}  // namespace imka::gpu

// Arguments of the kernels of fused attention: plain values, pointers to memory of the GPU.
#pragma once

#include <cstdint>

#include "imka/ops/attention/fused.hpp"

namespace imka::ops {

// Rows of features, as products read them: bfloat16, `parts` matrices of rows x (d + 8). Columns have the
// order of column_of() in fused_tiles.cuh; column d is the normaliser, the rest is 0.
struct FusedWork {
    FusedInputs in;
    const void* dy = nullptr;
    void* y = nullptr;
    void* dq = nullptr;
    void* dk = nullptr;
    void* dv = nullptr;

    // Kept for the backward pass.
    void* omega = nullptr;   // m rows, scaled
    float* bound = nullptr;  // half of the largest |ω|, scaled
    void* sums = nullptr;    // per head of a sequence: Σ φ(k) (v - mean)ᵀ
    float* heads = nullptr;  // per head of a sequence: mean of v (d values), exponent of the sums, 3 unused
    float* inverses = nullptr;   // per head of a sequence and token: 1 / normaliser
    void* deviations = nullptr;  // y - mean; tokens x heads x d

    // Scratch.
    float* partials =
        nullptr;  // per head of a sequence and split: features x d, features, exponent, 3 unused
    void* gradient_sums = nullptr;  // as sums: Σ φ(q) dyᵀ / normaliser

    std::int64_t stride = 0;
    std::int64_t out_stride = 0;
    int batch = 0;
    int tokens = 0;
    int heads_per_token = 0;
    int directions = 0;
    int features = 0;
    int splits = 1;  // of the keys of a sequence
    float epsilon = 0.0F;
    bool cut_gradient = false;
};

void start_fused_forward(const FusedAttention& shape, const FusedWork& work, void* stream);
void start_fused_backward(const FusedAttention& shape, const FusedWork& work, void* stream);

}  // namespace imka::ops

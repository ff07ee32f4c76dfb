// Kernelised attention of many sequences on a GPU, forward and backward, without features in memory: both
// directions compute them again from q and k.
//
//   y = φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k)   per sequence and head, with x' = x d^(-1/4)
//   positive: φ(x) = [exp(Ωx' - |x'|²/2), exp(-Ωx' - |x'|²/2)];   relu: φ(x) = max(Ωx', 0) + epsilon
//
// Memory belongs to the caller: pointers to memory of the current GPU, 16-byte aligned. Calls start kernels
// on a stream and return; they allocate nothing and do not wait, so that a CUDA graph can record them. The
// same inputs give the same bits in every run.
//
// Precision: sums are floats. bfloat16: factors of products, Ω included, are rounded to bfloat16. float32:
// factors have two parts of bfloat16 each, about 16 bits. Exponents are relative to half of their bound
// |ω||x'|, which cancels; features leave the range of a float only if |ω||x'| exceeds 150.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/ops/attention/form.hpp"
#include "imka/ops/fused_type.hpp"

namespace imka::ops {

struct FusedAttention {
    FusedType type = FusedType::bfloat16;          // of q, k, v, y and their gradients
    AttentionForm form = AttentionForm::positive;  // or relu
    std::int64_t batch = 0;
    std::int64_t tokens = 0;  // per sequence
    std::int64_t heads = 0;
    std::int64_t head_size = 0;   // d: 16, 32 or 64
    std::int64_t directions = 0;  // m: a multiple of 16, at most 256
    // Elements from one token to the next, multiples of 8. Heads are contiguous. With a stride of 3 heads d,
    // q, k and v come from one product.
    std::int64_t stride = 0;      // of q, k, v and their gradients
    std::int64_t out_stride = 0;  // of y and its gradient
    float epsilon = 0.0F;         // of relu
    bool cut_gradient = false;    // no gradient through Ωx'; that of -|x'|²/2 remains
};

// Bytes that the forward pass keeps for the backward pass, and bytes of scratch memory of each pass.
std::size_t fused_saved_bytes(const FusedAttention& shape);
std::size_t fused_workspace_bytes(const FusedAttention& shape);

struct FusedInputs {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    const float* omega = nullptr;           // m x d, shared by the heads
    const std::int32_t* lengths = nullptr;  // per sequence; nullptr: all tokens are used
};

// Tokens beyond the length are padding: ignored as keys, their outputs and gradients are 0. `stream` is a
// cudaStream_t. Error{bad_config} for other shapes, Error{missing_part} in a build without CUDA.
struct FusedOutputs {
    void* workspace = nullptr;
    void* saved = nullptr;
    void* y = nullptr;
};
void fused_forward(const FusedAttention& shape, const FusedInputs& inputs, void* stream,
                   const FusedOutputs& outputs);

// Inputs and `saved` as in the forward pass. dy: gradient of y.
struct FusedGradients {
    const void* dy = nullptr;
    const void* saved = nullptr;
    void* workspace = nullptr;
    void* dq = nullptr;
    void* dk = nullptr;
    void* dv = nullptr;
};
void fused_backward(const FusedAttention& shape, const FusedInputs& inputs, void* stream,
                    const FusedGradients& gradients);

}  // namespace imka::ops

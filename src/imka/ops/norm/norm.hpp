// Layer norms for training on a GPU, fused with the operations around them, in one pass over memory forward
// and one backward:
//
//   residual:  sum = x + drop(f + bias),                          y = norm(sum)
//   embedding: sum = scale (table row or pixel w + b) + position, y = drop(norm(sum))
//   norm(s) = (s - mean) / sqrt(variance + epsilon) weight + bias
//
// Values that can be recomputed are not stored: the backward pass computes sums and dropped elements from the
// inputs. Memory belongs to the caller: pointers to memory of the current GPU, 16-byte aligned. Calls start
// kernels on a stream (a cudaStream_t) and return, so that a CUDA graph can record them. The same inputs give
// the same bits in every run: sums over tokens have a fixed order.
//
// Errors: Error{bad_config} for other shapes, Error{missing_part} in a build without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/ops/fused_type.hpp"

namespace imka::ops {

// documents x tokens rows of `width` elements. Tokens beyond the length of a document are padding: not read,
// and their outputs and gradients are 0.
struct TokenRows {
    FusedType type = FusedType::bfloat16;  // of activations and their gradients; everything else is float
    std::int64_t documents = 0;
    std::int64_t tokens = 0;                // per document
    std::int64_t width = 0;                 // a multiple of 8; up to 256 for norms
    const std::int32_t* lengths = nullptr;  // per document; nullptr: no padding
};

// Element i is dropped if half i % 2 (0: the lower one) of word i / 2 of random_bits(seed, stream, ...) is
// below 65536 share; the others are divided by the share that is kept.
struct Dropout {
    float share = 0.0F;  // 0: nothing is dropped
    const std::uint64_t* seed =
        nullptr;               // read by the kernel: a recorded graph can have a new one in each run
    std::uint32_t stream = 0;  // different streams are independent
};

struct NormWeights {
    const float* weight = nullptr;
    const float* bias = nullptr;
    float epsilon = 1e-5F;
};
struct NormWeightGradients {
    float* weight = nullptr;
    float* bias = nullptr;
};

// Floats of scratch memory of a backward pass, or of column_sums.
std::size_t column_workspace(const TokenRows& rows);

struct ResidualInputs {
    const void* x = nullptr;
    const void* f = nullptr;      // nullptr: the sum is x
    const float* bias = nullptr;  // of f; nullptr: none
    Dropout dropout = {};
    NormWeights norm = {};
};
struct ResidualOutputs {
    float* moments = nullptr;  // per row: mean and 1 / sqrt(variance + epsilon), for the backward pass
    void* sum = nullptr;       // nullptr: not written
    void* y = nullptr;
};
void residual_norm(const TokenRows& rows, const ResidualInputs& inputs, void* stream,
                   const ResidualOutputs& outputs);

struct ResidualGradients {
    const void* dy = nullptr;
    const void* dsum = nullptr;  // of the sum as an output; nullptr: 0
    const float* moments = nullptr;
    float* workspace = nullptr;
    void* dx = nullptr;
    void* df = nullptr;  // nullptr: not written; without dropout it is dx
    NormWeightGradients norm = {};
    float* dbias = nullptr;  // of f
};
void residual_norm_backward(const TokenRows& rows, const ResidualInputs& inputs, void* stream,
                            const ResidualGradients& gradients);

struct EmbeddingInputs {
    const std::uint8_t* tokens = nullptr;  // documents x tokens
    const float* table = nullptr;          // token t has row t + 1; nullptr: pixels
    const float* pixel_weight = nullptr;   // pixels: (factor t + shift) weight + bias
    const float* pixel_bias = nullptr;
    float pixel_factor = 1.0F;
    float pixel_shift = 0.0F;
    float scale = 1.0F;
    const float* positions = nullptr;  // tokens x width
    Dropout dropout = {};
    NormWeights norm = {};
};
struct EmbeddingOutputs {
    float* moments = nullptr;
    void* y = nullptr;
};
void embedding_norm(const TokenRows& rows, const EmbeddingInputs& inputs, void* stream,
                    const EmbeddingOutputs& outputs);

struct EmbeddingGradients {
    const void* dy = nullptr;
    const float* moments = nullptr;
    float* workspace = nullptr;
    void* drows = nullptr;  // with a table: the gradient of each token's row
    NormWeightGradients norm = {};
    float* dpixel_weight = nullptr;  // of pixels
    float* dpixel_bias = nullptr;
};
void embedding_norm_backward(const TokenRows& rows, const EmbeddingInputs& inputs, void* stream,
                             const EmbeddingGradients& gradients);

}  // namespace imka::ops

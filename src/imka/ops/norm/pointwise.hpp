// Passes over tokens, other than norms, for training on a GPU: activations with their bias, sums of columns,
// means of documents. Memory, streams, padding and errors are handled as in norm.hpp.
#pragma once

#include "imka/ops/norm/norm.hpp"

namespace imka::ops {

enum class UnitFunction { gelu, silu, relu };  // gelu: with erf

// y = function(x + bias). Width: at most 2048.
struct ActivationInputs {
    const void* x = nullptr;
    const float* bias = nullptr;
    UnitFunction function = UnitFunction::gelu;
};
void bias_activation(const TokenRows& rows, const ActivationInputs& inputs, void* stream, void* y);

struct ActivationGradients {
    const void* dy = nullptr;
    float* workspace = nullptr;
    void* dx = nullptr;
    float* dbias = nullptr;
};
void bias_activation_backward(const TokenRows& rows, const ActivationInputs& inputs, void* stream,
                              const ActivationGradients& gradients);

// The sum over all tokens: the gradient of a bias. Width: at most 2048.
struct ColumnSums {
    float* workspace = nullptr;
    float* sums = nullptr;
};
void column_sums(const TokenRows& rows, const void* x, void* stream, const ColumnSums& outputs);

// The mean over the tokens of each document, documents x width floats; 0 for empty ones. Width: at most 2048.
void document_means(const TokenRows& rows, const void* x, void* stream, float* means);
void document_means_backward(const TokenRows& rows, const float* dmeans, void* stream, void* dx);

}  // namespace imka::ops

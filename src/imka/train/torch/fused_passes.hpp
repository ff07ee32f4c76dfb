// The passes over tokens of ops/norm on a GPU, with gradients. Activations are documents x tokens x width,
// float or bfloat16; parameters are floats. Padding is not read, adds nothing to gradients, and is 0 in every
// result.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "imka/train/recipe.hpp"

namespace imka {

// Whether the kernels support a model on this device.
bool has_fused_passes(const PerformerConfig& model, const torch::Device& device);

// Stream of the random words of position 0; above the values of enum Stream.
inline constexpr std::uint32_t kDropoutStream = 1000;
struct TokenDropout {
    double share = 0.0;
    torch::Tensor seed;         // i64, one value on the device
    std::int64_t position = 0;  // in the network: different positions drop different elements
};

struct NormPart {
    const torch::Tensor& weight;
    const torch::Tensor& bias;
    double epsilon;
};

// sum = x + drop(f + bias), y = norm(sum). f and bias may be undefined.
struct ResidualPart {
    torch::Tensor f;
    torch::Tensor bias;
    TokenDropout dropout;
    bool keep_sum = false;  // the sum is a result too
};
struct ResidualResult {
    torch::Tensor sum;  // undefined unless kept
    torch::Tensor y;
};
ResidualResult fused_residual_norm(const torch::Tensor& x, const ResidualPart& part, const NormPart& norm,
                                   const torch::Tensor& lengths);

// Tokens of a batch to drop(norm(scale e(token) + position)).
struct EmbeddingPart {
    bool table = true;
    torch::Tensor weight;     // the table, or the weight of pixels
    torch::Tensor bias;       // of pixels
    torch::Tensor positions;  // tokens x width
    double pixel_mean = 0.0;
    double pixel_std = 1.0;
    double scale = 1.0;
    TokenDropout dropout;
    torch::ScalarType type = torch::kFloat;  // of the result
};
torch::Tensor fused_embedding(const torch::Tensor& tokens, const EmbeddingPart& part, const NormPart& norm,
                              const torch::Tensor& lengths);

// activation(x + bias)
torch::Tensor fused_activation(const torch::Tensor& x, const torch::Tensor& bias, Activation activation,
                               const torch::Tensor& lengths);

// y = x weightᵀ + bias, and a second output equal to x for another use: the backward pass adds the gradient
// of the product to the gradient of that output in place. bias may be undefined.
struct ForkedProduct {
    torch::Tensor y;
    torch::Tensor x;
};
ForkedProduct fused_product(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                            const torch::Tensor& lengths);

// documents x width floats: the mean over the tokens of each document.
torch::Tensor fused_means(const torch::Tensor& x, const torch::Tensor& lengths);

}  // namespace imka

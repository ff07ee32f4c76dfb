// Attention by the fused kernels of ops/attention/fused.hpp, with gradients.
#pragma once

#include <torch/torch.h>

#include "imka/train/recipe.hpp"

namespace imka {

struct FusedChoice {
    ModelAttention kind = ModelAttention::favor;
    std::int64_t heads = 0;
    double epsilon = 0.0;  // of relu
    bool cut = false;
};

// Whether the kernels support a model on this device.
bool has_fused_attention(const PerformerConfig& model, const torch::Device& device);

// qkv: batch x tokens x 3 width, float or bfloat16: queries, keys and values of all heads. lengths: i32 per
// sequence, or undefined. Returns batch x tokens x width; padding is 0.
torch::Tensor fused_attention(const torch::Tensor& qkv, const torch::Tensor& omega,
                              const torch::Tensor& lengths, const FusedChoice& choice);

}  // namespace imka

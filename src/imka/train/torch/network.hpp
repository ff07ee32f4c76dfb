// The Performer of train/performer.hpp in LibTorch, for training and validation.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "imka/train/recipe.hpp"
#include "imka/train/torch/analog.hpp"
#include "imka/train/torch/fused_passes.hpp"
#include "imka/train/torch/parameters.hpp"

namespace imka {

// Documents of a batch, on the device of the network.
struct Batch {
    torch::Tensor tokens;   // u8, examples x tokens; all first documents, then all second ones
    torch::Tensor lengths;  // i64, one per document; undefined if every document is full
    torch::Tensor labels;   // i64
};

class Network {
public:
    Network(const TrainRecipe& recipe, const Performer& start, const torch::Device& device);

    // examples x classes. Training: with dropout and, if enabled, the noise of hardware.
    torch::Tensor forward(const Batch& batch, bool training);
    // Ω of all layers.
    void set_omega(const std::vector<Matrix<float>>& omega);
    // Dropout of fused passes in the next training pass. LibTorch's own operations use LibTorch's generator.
    void set_seed(std::uint64_t seed);
    // Takes input ranges from the data: while on, a training pass sets them to the mean of 3 standard
    // deviations over this pass and the `seen` passes before. Only without gradients.
    void follow_ranges(std::int64_t seen) { ranges_seen_ = seen; }
    void stop_following() { ranges_seen_ = -1; }
    // Clips weights to their distribution, as hardware-aware training does after every step.
    void clip_weights();

    Parameters& parameters() { return parameters_; }
    const torch::Device& device() const { return device_; }

private:
    // The vectors of all tokens: x, to which residual connections add, and normed, which the next part reads.
    // With norms after each part both are the same.
    struct TokenStream {
        torch::Tensor x;
        torch::Tensor normed;
    };
    // Where a part of a layer ends: the product whose output is added, the norm after it, its dropout.
    struct Join {
        std::string product;
        std::string norm;
        std::int64_t position;
    };
    torch::Tensor linear(const torch::Tensor& x, const std::string& name);
    torch::Tensor weighted(const torch::Tensor& x, const std::string& name);
    torch::Tensor product(const torch::Tensor& x, const torch::Tensor& weight) const;
    torch::Tensor in_products(const torch::Tensor& x) const;
    torch::Tensor forked(TokenStream& stream, const torch::Tensor& weight, const torch::Tensor& bias) const;
    torch::Tensor norm(const torch::Tensor& x, const std::string& name) const;
    torch::Tensor dropped(const torch::Tensor& x, double share) const;
    torch::Tensor embedded(const Batch& batch, const torch::Tensor& mask) const;
    torch::Tensor fused_embedded(const Batch& batch) const;
    torch::Tensor encoded(const torch::Tensor& x, const torch::Tensor& mask);
    TokenStream joined(const TokenStream& stream, const torch::Tensor& f, const Join& join) const;
    torch::Tensor attention(TokenStream& stream, std::int64_t index, const torch::Tensor& mask);
    // Both return batch x tokens x width.
    torch::Tensor heads_attention(const torch::Tensor& x, std::int64_t index, const torch::Tensor& mask);
    torch::Tensor joint_attention(TokenStream& stream, std::int64_t index);
    torch::Tensor queries_keys_values(TokenStream& stream, const std::string& prefix);
    torch::Tensor hidden_units(TokenStream& stream, const std::string& prefix);
    // The output of a part of a layer; fused passes add its bias later.
    torch::Tensor part_output(const torch::Tensor& x, const std::string& name);
    torch::Tensor pooled(const torch::Tensor& x, const Batch& batch, const torch::Tensor& mask) const;
    TokenDropout dropout_at(std::int64_t position) const;
    NormPart norm_part(const std::string& name) const;

    TrainRecipe recipe_;
    AnalogHardware hardware_;
    torch::Device device_;
    Parameters parameters_;
    torch::Tensor positions_;
    std::vector<torch::Tensor> omega_;
    torch::Tensor lengths_;  // i32, of the current batch, for fused operations
    torch::Tensor used_;     // with which fused passes skip padding: lengths_, or none with hardware
    torch::Tensor seed_;     // i64, one value, of fused dropout
    bool training_ = false;
    bool fused_attention_;
    bool fused_passes_;  // over tokens: norms, residuals, activations
    bool bfloat_;        // bf16 on a GPU; on a processor it is slow or not supported
    std::int64_t ranges_seen_ = -1;
};

// y = φ(q)(φ(k)ᵀ v) / φ(q)(φ(k)ᵀ 1); q, k, v: batch x heads x tokens x head size; mask: batch x tokens, true
// for keys that count, or undefined. cut: no gradient through the projection.
// Keeps queries that see only zero features from dividing by 0. As in the graph of a Performer.
inline constexpr double kReluEpsilon = 1e-6;
struct FeatureAttention {
    ModelAttention kind = ModelAttention::favor;
    bool cut = false;
    const AnalogHardware* hardware = nullptr;  // of the projection; none: digital
};
torch::Tensor kernel_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& mask, const torch::Tensor& omega,
                               const FeatureAttention& how);
torch::Tensor exact_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const torch::Tensor& mask);

}  // namespace imka

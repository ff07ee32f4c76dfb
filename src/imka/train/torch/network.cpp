#include "imka/train/torch/network.hpp"

#include <fmt/format.h>

#include <cmath>

#include "imka/train/torch/analog.hpp"
#include "imka/train/torch/fused_attention.hpp"
#include "imka/train/torch/tensors.hpp"

namespace imka {
namespace {

using torch::Tensor;

constexpr double kNormEpsilon = 1e-5;
constexpr double kLeastRange = 1e-3;  // of inputs

Tensor activated(const Tensor& x, Activation activation) {
    switch (activation) {
        case Activation::gelu:
            return torch::gelu(x);
        case Activation::silu:
            return torch::silu(x);
        case Activation::relu:
            break;
    }
    return torch::relu(x);
}

// Of the parameters of a layer.
std::string prefix_of(const PerformerConfig& model, std::int64_t index) {
    return fmt::format("layer{}.", model.tied ? 0 : index);
}

std::vector<std::string> ranged_weights(const TrainRecipe& recipe) {
    return enabled(recipe.hardware) ? static_weights(recipe.model) : std::vector<std::string>{};
}

// Documents x tokens, true for tokens; undefined if every document is full.
Tensor mask_of(const Batch& batch) {
    if (!batch.lengths.defined()) return {};
    const auto positions = torch::arange(batch.tokens.size(1), batch.lengths.options());
    return positions.unsqueeze(0) < batch.lengths.unsqueeze(1);
}

Tensor masked(const Tensor& x, const Tensor& mask) {
    return mask.defined() ? x * mask.unsqueeze(-1).to(x.dtype()) : x;
}

// The mean over the tokens of each document.
Tensor pooled(const Tensor& x, const Batch& batch, const Tensor& mask) {
    if (!mask.defined()) return x.mean(1);
    return masked(x, mask).sum(1) / batch.lengths.unsqueeze(1).to(x.dtype());
}

}  // namespace

Network::Network(const TrainRecipe& recipe, const Performer& start, const torch::Device& device)
    : recipe_(recipe),
      device_(device),
      parameters_(start, ranged_weights(recipe), device),
      positions_(to_tensor(sinusoidal_positions(recipe.model).view()).to(parameters_.values().options())) {
    fused_ = has_fused_attention(recipe.model, device) &&
             !(enabled(recipe.hardware) && recipe.hardware.omega_on_chip);
    set_omega(start.omega);
}

void Network::set_omega(const std::vector<Matrix<float>>& omega) {
    omega_.resize(omega.size());
    for (std::size_t i = 0; i < omega.size(); ++i) {
        auto drawn = to_tensor(omega[i]).to(parameters_.values().options());
        // In place: a captured step keeps reading the same memory.
        if (omega_[i].defined())
            omega_[i].copy_(drawn);
        else
            omega_[i] = drawn;
    }
}

Tensor Network::product(const Tensor& x, const Tensor& weight) const {
    if (recipe_.train.precision != TrainPrecision::bf16) return torch::matmul(x, weight.t());
    return torch::matmul(x.to(torch::kBFloat16), weight.t().to(torch::kBFloat16)).to(weight.dtype());
}

Tensor Network::linear(const Tensor& x, const std::string& name) {
    const auto& weight = parameters_[name + ".weight"];
    Tensor y;
    if (training_ && enabled(recipe_.hardware)) {
        const auto& range = parameters_.range(name);
        if (ranges_seen_ >= 0) {
            auto value = range.detach();
            value.add_(3.0 * x.std() - value, 1.0 / static_cast<double>(ranges_seen_ + 1));
        }
        y = analog_product(x.to(weight.dtype()), weight, range, recipe_.hardware);
    } else if (enabled(recipe_.hardware)) {
        y = product(clipped(x.to(weight.dtype()), parameters_.range(name), recipe_.hardware), weight);
    } else {
        y = product(x, weight);
    }
    return parameters_.has(name + ".bias") ? y + parameters_[name + ".bias"] : y;
}

Tensor Network::norm(const Tensor& x, const std::string& name) const {
    return torch::layer_norm(x, {x.size(-1)}, parameters_[name + ".weight"], parameters_[name + ".bias"],
                             kNormEpsilon);
}

Tensor Network::dropped(const Tensor& x, double share) const {
    return training_ && share > 0.0 ? torch::dropout(x, share, true) : x;
}

Tensor Network::embedded(const Batch& batch, const Tensor& mask) const {
    const auto& model = recipe_.model;
    const auto& weight = parameters_["embedding.weight"];
    Tensor e;
    if (model.embedding == Embedding::table) {
        e = torch::embedding(weight, batch.tokens.to(torch::kLong) + 1);
    } else {
        const auto x = (batch.tokens.to(positions_.dtype()) / 255.0 - model.pixel_mean) / model.pixel_std;
        e = x.unsqueeze(-1) * weight + parameters_["embedding.bias"];
    }
    e = e * std::sqrt(static_cast<double>(model.width)) + positions_.slice(0, 0, batch.tokens.size(1));
    return masked(dropped(norm(e, "embedding.norm"), recipe_.train.dropout), mask);
}

Tensor Network::heads_attention(const Tensor& x, std::int64_t index, const Tensor& mask) {
    const auto& model = recipe_.model;
    const auto prefix = prefix_of(model, index);
    const auto heads = [&](const std::string& part) {
        return linear(x, prefix + part)
            .view({x.size(0), x.size(1), model.heads, head_size(model)})
            .transpose(1, 2);
    };
    const auto q = heads("q");
    const auto k = heads("k");
    const auto v = heads("v");
    const bool noisy_omega = training_ && enabled(recipe_.hardware) && recipe_.hardware.omega_on_chip;
    const auto y = model.attention == ModelAttention::exact
                       ? exact_attention(q, k, v, mask)
                       : kernel_attention(q, k, v, mask, omega_[static_cast<std::size_t>(index)],
                                          {.kind = model.attention,
                                           .cut = recipe_.train.cut_gradient,
                                           .hardware = noisy_omega ? &recipe_.hardware : nullptr});
    return y.transpose(1, 2).reshape(x.sizes());
}

// One product for all three, unless hardware has a range and noise for each.
Tensor Network::queries_keys_values(const Tensor& x, const std::string& prefix) {
    if (enabled(recipe_.hardware))
        return torch::cat({linear(x, prefix + "q"), linear(x, prefix + "k"), linear(x, prefix + "v")}, -1);
    const auto joined = [&](const char* part) {
        return torch::cat({parameters_[prefix + "q" + part], parameters_[prefix + "k" + part],
                           parameters_[prefix + "v" + part]});
    };
    const auto type = recipe_.train.precision == TrainPrecision::bf16 ? torch::kBFloat16 : torch::kFloat;
    const auto y = torch::matmul(x.to(type), joined(".weight").t().to(type));
    return recipe_.model.qkv_bias ? y + joined(".bias").to(type) : y;
}

Tensor Network::joint_attention(const Tensor& x, std::int64_t index) {
    const auto& model = recipe_.model;
    auto qkv = queries_keys_values(x, prefix_of(model, index));
    if (recipe_.train.precision == TrainPrecision::bf16) qkv = qkv.to(torch::kBFloat16);
    return fused_attention(qkv, omega_[static_cast<std::size_t>(index)], lengths_,
                           {.kind = model.attention,
                            .heads = model.heads,
                            .epsilon = kReluEpsilon,
                            .cut = recipe_.train.cut_gradient});
}

Tensor Network::attention(const Tensor& x, std::int64_t index, const Tensor& mask) {
    const auto y = fused_ ? joint_attention(x, index) : heads_attention(x, index, mask);
    return linear(dropped(y, recipe_.train.attention_dropout), prefix_of(recipe_.model, index) + "out");
}

Tensor Network::hidden_units(const Tensor& x, const std::string& prefix) {
    return linear(activated(linear(x, prefix + "fc1"), recipe_.model.activation), prefix + "fc2");
}

Tensor Network::layer(Tensor x, std::int64_t index, const Tensor& mask) {
    const auto prefix = prefix_of(recipe_.model, index);
    const double dropout = recipe_.train.dropout;
    if (recipe_.model.norm == NormOrder::post) {
        x = norm(x + dropped(attention(x, index, mask), dropout), prefix + "norm1");
        return norm(x + dropped(hidden_units(x, prefix), dropout), prefix + "norm2");
    }
    x = x + dropped(attention(norm(x, prefix + "norm1"), index, mask), dropout);
    return x + dropped(hidden_units(norm(x, prefix + "norm2"), prefix), dropout);
}

Tensor Network::forward(const Batch& batch, bool training) {
    training_ = training;
    const auto& model = recipe_.model;
    const auto mask = mask_of(batch);
    if (fused_ && mask.defined()) lengths_ = batch.lengths.to(torch::kInt);
    auto x = embedded(batch, mask);
    for (std::int64_t i = 0; i < model.layers; ++i) x = layer(x, i, mask);
    if (model.norm == NormOrder::pre) x = norm(x, "norm");
    auto h = pooled(x, batch, mask);
    if (model.documents == 2) {
        const auto parts = h.chunk(2, 0);
        h = torch::cat({parts[1], parts[0]}, -1);
    }
    h = activated(dropped(linear(h, "classifier.hidden"), recipe_.train.dropout),
                  model.classifier_activation);
    return linear(h, "classifier.output");
}

void Network::clip_weights() {
    if (!enabled(recipe_.hardware) || recipe_.hardware.weight_clip <= 0.0) return;
    const torch::NoGradGuard guard;
    for (const auto& name : static_weights(recipe_.model)) {
        auto weight = parameters_[name + ".weight"].detach();
        const auto limit = recipe_.hardware.weight_clip * weight.std();
        weight.copy_(torch::min(torch::max(weight, -limit), limit));
        parameters_.range(name).detach().clamp_min_(kLeastRange);
    }
}

}  // namespace imka

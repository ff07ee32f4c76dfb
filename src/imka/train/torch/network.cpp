#include "imka/train/torch/network.hpp"

#include <fmt/format.h>

#include <cmath>

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

}  // namespace

Network::Network(const TrainRecipe& recipe, const Performer& start, const torch::Device& device)
    : recipe_(recipe),
      hardware_{.config = recipe.hardware},
      device_(device),
      parameters_(start, ranged_weights(recipe), device),
      positions_(to_tensor(sinusoidal_positions(recipe.model).view()).to(parameters_.values().options())) {
    fused_attention_ = has_fused_attention(recipe.model, device) &&
                       !(enabled(recipe.hardware) && recipe.hardware.omega_on_chip);
    fused_passes_ = has_fused_passes(recipe.model, device);
    bfloat_ = device.is_cuda() && recipe.train.precision == TrainPrecision::bf16;
    seed_ = torch::zeros({1}, torch::TensorOptions(torch::kLong).device(device));
    set_omega(start.omega);
}

void Network::set_seed(std::uint64_t seed) {
    if (fused_passes_) send(torch::full({1}, static_cast<std::int64_t>(seed), torch::kLong), seed_);
}

void Network::set_omega(const std::vector<Matrix<float>>& omega) {
    omega_.resize(omega.size());
    for (std::size_t i = 0; i < omega.size(); ++i) {
        const auto drawn = to_tensor(omega[i]);
        // In place: a captured step keeps reading the same memory.
        if (omega_[i].defined())
            send(drawn, omega_[i]);
        else
            omega_[i] = drawn.to(parameters_.values().options());
    }
}

// x in the type that the matrix units read.
Tensor Network::in_products(const Tensor& x) const {
    return bfloat_ ? x.to(torch::kBFloat16) : x;
}

Tensor Network::product(const Tensor& x, const Tensor& weight) const {
    return torch::matmul(in_products(x), in_products(weight.t()));
}

// The product with the weights of a layer, without bias.
Tensor Network::weighted(const Tensor& x, const std::string& name) {
    const auto& weight = parameters_[name + ".weight"];
    if (!enabled(recipe_.hardware)) return product(x, weight);
    const auto& range = parameters_.range(name);
    if (!training_)
        return product(clipped(x.to(weight.dtype()), range, recipe_.hardware), weight).to(weight.dtype());
    if (ranges_seen_ >= 0) {
        auto value = range.detach();
        value.add_(3.0 * x.std() - value, 1.0 / static_cast<double>(ranges_seen_ + 1));
    }
    return analog_product(x.to(weight.dtype()), weight, range, hardware_);
}

Tensor Network::linear(const Tensor& x, const std::string& name) {
    const auto y = weighted(x, name).to(parameters_.values().dtype());
    return parameters_.has(name + ".bias") ? y + parameters_[name + ".bias"] : y;
}

Tensor Network::part_output(const Tensor& x, const std::string& name) {
    return fused_passes_ ? weighted(x, name) : linear(x, name);
}

// The first product of a part of a layer. If the residual connection starts here too, it continues with the
// copy of x that the product returns.
Tensor Network::forked(TokenStream& stream, const Tensor& weight, const Tensor& bias) const {
    const auto out = fused_product(in_products(stream.normed), in_products(weight), bias, lengths_);
    if (recipe_.model.norm == NormOrder::post) stream.x = out.x;
    return out.y;
}

NormPart Network::norm_part(const std::string& name) const {
    return {parameters_[name + ".weight"], parameters_[name + ".bias"], kNormEpsilon};
}

Tensor Network::norm(const Tensor& x, const std::string& name) const {
    if (fused_passes_) return fused_residual_norm(x, {}, norm_part(name), used_).y;
    return torch::layer_norm(x, {x.size(-1)}, parameters_[name + ".weight"], parameters_[name + ".bias"],
                             kNormEpsilon);
}

Tensor Network::dropped(const Tensor& x, double share) const {
    return training_ && share > 0.0 ? torch::dropout(x, share, true) : x;
}

TokenDropout Network::dropout_at(std::int64_t position) const {
    return {training_ ? recipe_.train.dropout : 0.0, seed_, position};
}

Tensor Network::fused_embedded(const Batch& batch) const {
    const auto& model = recipe_.model;
    const bool table = model.embedding == Embedding::table;
    // With hardware noise, products use floats.
    const bool bfloat = bfloat_ && !enabled(recipe_.hardware);
    return fused_embedding(batch.tokens,
                           {.table = table,
                            .weight = parameters_["embedding.weight"],
                            .bias = table ? Tensor() : parameters_["embedding.bias"],
                            .positions = positions_,
                            .pixel_mean = model.pixel_mean,
                            .pixel_std = model.pixel_std,
                            .scale = std::sqrt(static_cast<double>(model.width)),
                            .dropout = dropout_at(0),
                            .type = bfloat ? torch::kBFloat16 : torch::kFloat},
                           norm_part("embedding.norm"), lengths_);
}

Tensor Network::embedded(const Batch& batch, const Tensor& mask) const {
    if (fused_passes_) return fused_embedded(batch);
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
                                           .hardware = noisy_omega ? &hardware_ : nullptr});
    return y.transpose(1, 2).reshape(x.sizes());
}

// One product for all three, unless hardware needs a separate range and noise for each.
Tensor Network::queries_keys_values(TokenStream& stream, const std::string& prefix) {
    const auto& x = stream.normed;
    if (enabled(recipe_.hardware))
        return torch::cat({linear(x, prefix + "q"), linear(x, prefix + "k"), linear(x, prefix + "v")}, -1);
    const auto joined = [&](const char* part) {
        return torch::cat({parameters_[prefix + "q" + part], parameters_[prefix + "k" + part],
                           parameters_[prefix + "v" + part]});
    };
    const auto bias = recipe_.model.qkv_bias ? joined(".bias") : Tensor();
    if (fused_passes_) return forked(stream, joined(".weight"), bias);
    const auto y = product(x, joined(".weight"));
    return bias.defined() ? y + bias.to(y.dtype()) : y;
}

Tensor Network::joint_attention(TokenStream& stream, std::int64_t index) {
    const auto& model = recipe_.model;
    const auto qkv = in_products(queries_keys_values(stream, prefix_of(model, index)));
    return fused_attention(qkv, omega_[static_cast<std::size_t>(index)], lengths_,
                           {.kind = model.attention,
                            .heads = model.heads,
                            .epsilon = kReluEpsilon,
                            .cut = recipe_.train.cut_gradient});
}

Tensor Network::attention(TokenStream& stream, std::int64_t index, const Tensor& mask) {
    const auto y =
        fused_attention_ ? joint_attention(stream, index) : heads_attention(stream.normed, index, mask);
    return part_output(dropped(y, recipe_.train.attention_dropout), prefix_of(recipe_.model, index) + "out");
}

Tensor Network::hidden_units(TokenStream& stream, const std::string& prefix) {
    const auto activation = recipe_.model.activation;
    const auto first = prefix + "fc1";
    if (!fused_passes_) return linear(activated(linear(stream.normed, first), activation), prefix + "fc2");
    const auto h = enabled(recipe_.hardware) ? weighted(stream.normed, first)
                                             : forked(stream, parameters_[first + ".weight"], {});
    return weighted(fused_activation(h, parameters_[first + ".bias"], activation, used_), prefix + "fc2");
}

// Adds the output of a part of a layer.
Network::TokenStream Network::joined(const TokenStream& stream, const Tensor& f, const Join& join) const {
    const bool post = recipe_.model.norm == NormOrder::post;
    if (fused_passes_) {
        const auto out = fused_residual_norm(stream.x,
                                             {.f = f,
                                              .bias = parameters_[join.product + ".bias"],
                                              .dropout = dropout_at(join.position),
                                              .keep_sum = !post},
                                             norm_part(join.norm), used_);
        return {post ? out.y : out.sum, out.y};
    }
    const auto sum = stream.x + dropped(f, recipe_.train.dropout);
    const auto normed = norm(sum, join.norm);
    return {post ? normed : sum, normed};
}

// All layers. With norms before each part, every sum is followed by the norm of the next part.
Tensor Network::encoded(const Tensor& x, const Tensor& mask) {
    const auto& model = recipe_.model;
    const bool post = model.norm == NormOrder::post;
    TokenStream stream{x, post ? x : norm(x, prefix_of(model, 0) + "norm1")};
    for (std::int64_t i = 0; i < model.layers; ++i) {
        const auto prefix = prefix_of(model, i);
        const auto next = i + 1 < model.layers ? prefix_of(model, i + 1) + "norm1" : std::string("norm");
        const auto attended = attention(stream, i, mask);
        stream = joined(stream, attended, {prefix + "out", prefix + (post ? "norm1" : "norm2"), 1 + 2 * i});
        const auto units = hidden_units(stream, prefix);
        stream = joined(stream, units, {prefix + "fc2", post ? prefix + "norm2" : next, 2 + 2 * i});
    }
    return stream.normed;
}

// The mean over the tokens of each document.
Tensor Network::pooled(const Tensor& x, const Batch& batch, const Tensor& mask) const {
    if (fused_passes_) return fused_means(x, lengths_);
    if (!mask.defined()) return x.mean(1);
    return masked(x, mask).sum(1) / batch.lengths.unsqueeze(1).to(x.dtype());
}

Tensor Network::forward(const Batch& batch, bool training) {
    training_ = training;
    const auto& model = recipe_.model;
    const bool fused = fused_attention_ && fused_passes_;
    const auto mask = fused ? Tensor() : mask_of(batch);
    lengths_ = device_.is_cuda() && batch.lengths.defined() ? batch.lengths.to(torch::kInt) : Tensor();
    // Input ranges are computed over all tokens: zeros in place of padding would make them smaller.
    used_ = enabled(recipe_.hardware) ? Tensor() : lengths_;
    auto h = pooled(encoded(embedded(batch, mask), mask), batch, mask);
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

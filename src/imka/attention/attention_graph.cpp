#include "imka/attention/attention_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "imka/base/error.hpp"
#include "imka/graph/builder.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

using graph::Builder;
using graph::DType;
using graph::Tensor;
using graph::ValueId;

double input_scale(const AttentionLayer& layer) {
    const auto d = static_cast<double>(layer.omega.cols());
    return std::sqrt(layer.options.scale.value_or(1.0 / std::sqrt(d)));
}

// In double, rounded once, as in KernelAttention.
ValueId scaled(Builder& b, const std::string& name, ValueId x, ValueId scale) {
    x = b.cast(name + "64", x, DType::f64);
    x = b.node("Mul", name + "64_scaled", {x, scale});
    return b.cast(name + "_scaled", x, DType::f32);
}

graph::Dims token_dims(const std::string& heads, const std::string& tokens, const graph::Dim& size) {
    return {{.name = "batch"}, {.name = heads}, {.name = tokens}, size};
}

void append(const HeadsView<const float>& x, std::size_t sequence, Tensor& out) {
    auto* to = out.values<float>().data() + sequence * x.heads() * x.length() * x.size();
    for (std::size_t h = 0; h < x.heads(); ++h) {
        for (std::size_t r = 0; r < x.length(); ++r, to += x.size()) std::ranges::copy(x.head(h).row(r), to);
    }
}

using Part = HeadsView<const float> AttentionInputs::*;

Tensor tensor_of(std::span<const AttentionInputs> sequences, Part part) {
    const auto& first = sequences[0].*part;
    const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    Tensor out(DType::f32,
               {size(sequences.size()), size(first.heads()), size(first.length()), size(first.size())});
    for (std::size_t s = 0; s < sequences.size(); ++s) {
        const auto& x = sequences[s].*part;
        if (x.heads() != first.heads() || x.length() != first.length() || x.size() != first.size())
            fail(ErrorCode::bad_data,
                 fmt::format("sequence {} has {} x {} x {} values, the first has {} x {} x {}", s, x.heads(),
                             x.length(), x.size(), first.heads(), first.length(), first.size()));
        append(x, s, out);
    }
    return out;
}

Tensor mask_tensor(std::span<const AttentionInputs> sequences) {
    const auto keys = sequences[0].key_mask.size();
    Tensor out(DType::u8, {static_cast<std::int64_t>(sequences.size()), static_cast<std::int64_t>(keys)});
    for (std::size_t s = 0; s < sequences.size(); ++s) {
        const auto mask = sequences[s].key_mask;
        if (mask.size() != keys)
            fail(ErrorCode::bad_data, fmt::format("the key mask of sequence {} has {} keys, the first has {}",
                                                  s, mask.size(), keys));
        std::ranges::copy(mask, out.values<std::uint8_t>().data() + s * keys);
    }
    return out;
}

}  // namespace

graph::Graph graph_of(const AttentionLayer& layer) {
    validate(layer.config);
    const bool causal = layer.options.causal;
    const graph::Dim d{.size = static_cast<std::int64_t>(layer.omega.cols())};
    const std::string keys = causal ? "queries" : "keys";
    Builder b;
    const auto q = b.input("q", token_dims("heads", "queries", d));
    const auto k = b.input("k", token_dims("key_heads", keys, d));
    const auto v = b.input("v", token_dims("key_heads", keys, {.name = "value_size"}));
    const auto scale = b.constant("input_scale", graph::double_tensor(input_scale(layer)));
    const auto omega = b.constant("omega", graph::matrix_tensor(transposed(layer.omega.view())));
    const auto u_q = b.node("MatMul", "q_projected", {scaled(b, "q", q, scale), omega});
    const auto u_k = b.node("MatMul", "k_projected", {scaled(b, "k", k, scale), omega});
    std::vector<ValueId> inputs{u_q, u_k, v, k};
    if (layer.key_mask) inputs.push_back(b.input("key_mask", {{.name = "batch"}, {.name = keys}}, DType::u8));
    const auto y = b.node("imka.Attention", "y", std::move(inputs),
                          {{"form", std::string(to_string(layer.config.form))},
                           {"epsilon", static_cast<float>(layer.config.kernel_epsilon)},
                           {"causal", std::int64_t{causal ? 1 : 0}},
                           {"input_scale", graph::double_tensor(input_scale(layer))}});
    return std::move(b).finished("attention", {y});
}

std::vector<Tensor> attention_tensors(std::span<const AttentionInputs> sequences) {
    if (sequences.empty()) fail(ErrorCode::bad_data, "attention: expected at least one sequence");
    std::vector<Tensor> tensors;
    for (const auto part : {&AttentionInputs::q, &AttentionInputs::k, &AttentionInputs::v})
        tensors.push_back(tensor_of(sequences, part));
    if (std::ranges::any_of(sequences, [](const auto& s) { return !s.key_mask.empty(); }))
        tensors.push_back(mask_tensor(sequences));
    return tensors;
}

DeployedModel deployed_attention(const AttentionLayer& layer, std::span<const AttentionInputs> calibration,
                                 const AttentionTarget& target, const Exec& exec) {
    const auto inputs = attention_tensors(calibration);
    auto graph = graph_of(layer);
    if (inputs.size() != graph.inputs.size())
        fail(ErrorCode::bad_data, layer.key_mask ? "attention: expected calibration sequences with key masks"
                                                 : "attention: the layer has no key masks, the sequences do");
    DeployOptions options{.on_chip = "omega", .map = target.map};
    for (const auto& t : inputs) options.input_shapes.push_back(t.shape);
    return deploy(place_model(std::move(graph), target.chip, options), target.chip, target.build, inputs,
                  target.seed, exec);
}

}  // namespace imka

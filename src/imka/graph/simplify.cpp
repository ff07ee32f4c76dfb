#include "imka/graph/simplify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "imka/graph/executor.hpp"
#include "imka/graph/operator.hpp"

namespace imka::graph {
namespace {

constexpr std::size_t kMostFoldedBytes = std::size_t{64} << 20U;

// The nodes that compute and read each value.
struct Links {
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    std::vector<std::size_t> producer;            // node, or kNone
    std::vector<std::vector<std::size_t>> users;  // nodes
    std::vector<bool> is_output;                  // of the graph

    explicit Links(const Graph& graph)
        : producer(graph.values.size(), kNone), users(graph.values.size()), is_output(graph.values.size()) {
        for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
            for (const auto id : graph.nodes[n].inputs) {
                if (id != kNoValue) users[id].push_back(n);
            }
            for (const auto id : graph.nodes[n].outputs) {
                if (id != kNoValue) producer[id] = n;
            }
        }
        for (const auto id : graph.outputs) is_output[id] = true;
    }
    // Whether exactly one node reads the value.
    bool is_private(ValueId id) const { return users[id].size() == 1 && !is_output[id]; }
};

void fold_constants(Graph& graph) {
    std::vector<Node> kept;
    for (auto& node : graph.nodes) {
        std::vector<TensorView> views(node.inputs.size());
        std::vector<const TensorView*> inputs(node.inputs.size(), nullptr);
        bool known = node.op != "Einsum";  // its cost is not bounded by its sizes
        for (std::size_t k = 0; k < node.inputs.size(); ++k) {
            if (node.inputs[k] == kNoValue) continue;
            const auto& value = graph.values[node.inputs[k]];
            const auto shape = known_shape(value.type);
            if (value.constant) {
                views[k] = value.constant->view();
            } else if ((node.op == "Shape" || node.op == "Size") && shape) {
                views[k] = {value.type.type, *shape, nullptr};  // they read no elements
            } else {
                known = false;
            }
            inputs[k] = &views[k];
        }
        for (const auto id : node.outputs) {
            if (id == kNoValue) continue;
            const auto shape = known_shape(graph.values[id].type);
            known = known && shape && element_count(*shape) * sizeof(double) <= kMostFoldedBytes;
        }
        if (!known) {
            kept.push_back(std::move(node));
            continue;
        }
        auto results = run_node(node, inputs, kMostFoldedBytes, {.threads = 1});
        for (std::size_t k = 0; k < node.outputs.size(); ++k) {
            if (node.outputs[k] == kNoValue) continue;
            auto& value = graph.values[node.outputs[k]];
            value.type = type_of(std::as_const(results[k]).view());
            value.constant = std::move(results[k]);
        }
    }
    graph.nodes = std::move(kept);
}

// Constant folding makes more shapes known, and known shapes make more constants.
void fold_all_constants(Graph& graph) {
    for (std::size_t before = graph.nodes.size() + 1; graph.nodes.size() < before;) {
        before = graph.nodes.size();
        fold_constants(graph);
        infer_types(graph);
    }
}

const Tensor* constant(const Graph& graph, const Node& node, std::size_t input) {
    if (input >= node.inputs.size() || node.inputs[input] == kNoValue) return nullptr;
    const auto& value = graph.values[node.inputs[input]].constant;
    return value ? &*value : nullptr;
}

// Whether a tensor is a single number near `wanted`.
bool is_number(const Tensor* t, double wanted) {
    return t != nullptr && element_count(t->shape) == 1 && is_float(t->type) &&
           std::abs(to_number(t->view()) - wanted) < 1e-5 * std::max(1.0, std::abs(wanted));
}

std::string unused_name(const Graph& graph, const std::string& base) {
    std::string name = base;
    for (int k = 1; find_value(graph, name); ++k) name = fmt::format("{}.{}", base, k);
    return name;
}

// Scale and shift of a BatchNormalization: y = factor x + shift, per channel.
struct ChannelScale {
    std::vector<double> factor;
    std::vector<double> shift;
};

std::optional<ChannelScale> batch_norm_scale(const Graph& graph, const Node& node) {
    if (node.op != "BatchNormalization" || int_attribute(node, "training_mode", 0) != 0) return std::nullopt;
    for (std::size_t k = 1; k <= 4; ++k) {
        const auto* t = constant(graph, node, k);
        if (t == nullptr || t->type != DType::f32 || t->shape.size() != 1) return std::nullopt;
    }
    const double epsilon = float_attribute(node, "epsilon", 1e-5F);
    const auto value = [&](std::size_t input, std::size_t c) {
        return static_cast<double>(constant(graph, node, input)->values<float>()[c]);
    };
    ChannelScale s;
    for (std::size_t c = 0; c < element_count(constant(graph, node, 1)->shape); ++c) {
        s.factor.push_back(value(1, c) / std::sqrt(value(4, c) + epsilon));
        s.shift.push_back(value(2, c) - value(3, c) * s.factor.back());
    }
    return s;
}

// Whether the weights of a node can be scaled by output channel.
bool scales_by_channel(const Graph& graph, const Node& node, std::size_t channels) {
    if (node.op != "Conv" && node.op != "Gemm") return false;
    const auto* w = constant(graph, node, 1);
    if (w == nullptr || w->type != DType::f32) return false;
    const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
    const auto* bias = constant(graph, node, 2);
    if (has_bias && (bias == nullptr || bias->shape != Shape{static_cast<std::int64_t>(channels)}))
        return false;
    if (node.op == "Gemm" &&
        (float_attribute(node, "alpha", 1) != 1 || float_attribute(node, "beta", 1) != 1))
        return false;
    const bool last = node.op == "Gemm" && int_attribute(node, "transB", 0) == 0;
    return static_cast<std::size_t>(last ? w->shape.back() : w->shape.front()) == channels;
}

void scale_weights(Graph& graph, Node& node, const ChannelScale& s) {
    const std::size_t channels = s.factor.size();
    Tensor weights = *constant(graph, node, 1);
    const bool last = node.op == "Gemm" && int_attribute(node, "transB", 0) == 0;
    const auto w = weights.values<float>();
    const std::size_t inner = w.size() / channels;
    for (std::size_t k = 0; k < w.size(); ++k)
        w[k] = static_cast<float>(w[k] * s.factor[last ? k % channels : k / inner]);
    Tensor bias(DType::f32, {static_cast<std::int64_t>(channels)});
    const auto* before = constant(graph, node, 2);
    for (std::size_t c = 0; c < channels; ++c) {
        const double b = before != nullptr ? before->values<float>()[c] : 0.0;
        bias.values<float>()[c] = static_cast<float>(b * s.factor[c] + s.shift[c]);
    }
    const auto name = graph.values[node.inputs[1]].name;
    node.inputs.resize(3, kNoValue);
    node.inputs[1] = add_constant(graph, unused_name(graph, name + ".folded"), std::move(weights));
    node.inputs[2] = add_constant(graph, unused_name(graph, name + ".folded_bias"), std::move(bias));
}

bool fold_batch_norm(Graph& graph) {
    const Links links(graph);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const auto scale = batch_norm_scale(graph, graph.nodes[n]);
        if (!scale) continue;
        const ValueId x = graph.nodes[n].inputs[0];
        const auto source = links.producer[x];
        if (source == Links::kNone || !links.is_private(x)) continue;
        if (!scales_by_channel(graph, graph.nodes[source], scale->factor.size())) continue;
        scale_weights(graph, graph.nodes[source], *scale);
        graph.nodes[source].outputs[0] = graph.nodes[n].outputs[0];
        graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(n));
        return true;
    }
    return false;
}

// The node that computes a value, if it has this operator.
const Node* producer_of(const Graph& graph, const Links& links, ValueId id, std::string_view op) {
    if (id == kNoValue || links.producer[id] == Links::kNone) return nullptr;
    const auto& node = graph.nodes[links.producer[id]];
    return node.op == op ? &node : nullptr;
}

// For x op constant: the other input if one input is the constant.
struct WithConstant {
    ValueId x;
    ValueId constant;
};
std::optional<WithConstant> with_constant(const Graph& graph, const Node& node) {
    if (node.inputs.size() != 2) return std::nullopt;
    for (const std::size_t k : {1U, 0U}) {
        if (constant(graph, node, k) != nullptr) return WithConstant{node.inputs[1 - k], node.inputs[k]};
    }
    return std::nullopt;
}

bool is_over_last_axis(const Graph& graph, const Node& mean) {
    if (int_attribute(mean, "keepdims", 1) == 0) return false;
    auto axes = ints_attribute(mean, "axes");
    if (const auto* given = constant(graph, mean, 1)) axes = to_ints(given->view());
    const auto& dims = graph.values[mean.inputs[0]].type.dims;
    return axes.size() == 1 && (axes[0] == -1 || (dims && axes[0] == std::ssize(*dims) - 1));
}

// x and epsilon of (x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon), over the last axis.
struct Normalized {
    ValueId x;
    float epsilon;
};
std::optional<Normalized> match_normalized(const Graph& graph, const Links& links, ValueId id) {
    const auto* div = producer_of(graph, links, id, "Div");
    if (div == nullptr) return std::nullopt;
    const auto* sub = producer_of(graph, links, div->inputs[0], "Sub");
    const auto* root = producer_of(graph, links, div->inputs[1], "Sqrt");
    const auto* sum = root != nullptr ? producer_of(graph, links, root->inputs[0], "Add") : nullptr;
    const auto parts = sum != nullptr ? with_constant(graph, *sum) : std::nullopt;
    if (sub == nullptr || !parts) return std::nullopt;
    const auto& epsilon = *graph.values[parts->constant].constant;
    const auto* variance = producer_of(graph, links, parts->x, "ReduceMean");
    const auto* mean = producer_of(graph, links, sub->inputs[1], "ReduceMean");
    if (variance == nullptr || mean == nullptr || element_count(epsilon.shape) != 1) return std::nullopt;
    if (mean->inputs[0] != sub->inputs[0] || !is_over_last_axis(graph, *mean) ||
        !is_over_last_axis(graph, *variance))
        return std::nullopt;
    const auto* power = producer_of(graph, links, variance->inputs[0], "Pow");
    const auto* square = producer_of(graph, links, variance->inputs[0], "Mul");
    const auto same_difference = [&](ValueId d) {  // some exporters subtract twice
        const auto* other = producer_of(graph, links, d, "Sub");
        return other != nullptr && other->inputs == sub->inputs;
    };
    const bool by_power =
        power != nullptr && same_difference(power->inputs[0]) && is_number(constant(graph, *power, 1), 2);
    const bool by_product =
        square != nullptr && square->inputs[0] == square->inputs[1] && same_difference(square->inputs[0]);
    if (!by_power && !by_product) return std::nullopt;
    return Normalized{sub->inputs[0], static_cast<float>(to_number(epsilon.view()))};
}

bool is_layer_scale(const Graph& graph, ValueId id, ValueId x) {
    const auto& value = graph.values[id];
    const auto& dims = graph.values[x].type.dims;
    return value.constant->type == DType::f32 && value.constant->shape.size() == 1 && dims &&
           !dims->empty() && dims->back().size == value.constant->shape[0];
}

// normalized(x) * scale + bias
std::optional<Node> match_layer_norm(const Graph& graph, const Links& links, const Node& add) {
    const auto bias = add.op == "Add" ? with_constant(graph, add) : std::nullopt;
    const auto* mul = bias ? producer_of(graph, links, bias->x, "Mul") : nullptr;
    const auto scale = mul != nullptr ? with_constant(graph, *mul) : std::nullopt;
    const auto inner = scale ? match_normalized(graph, links, scale->x) : std::nullopt;
    if (!inner || !links.is_private(bias->x) || !links.is_private(scale->x)) return std::nullopt;
    if (!is_layer_scale(graph, scale->constant, inner->x) || !is_layer_scale(graph, bias->constant, inner->x))
        return std::nullopt;
    return Node{add.name,
                "LayerNormalization",
                17,
                {{"axis", std::int64_t{-1}}, {"epsilon", inner->epsilon}},
                {inner->x, scale->constant, bias->constant},
                add.outputs};
}

// The argument x of 1 + erf(x / sqrt(2)).
std::optional<ValueId> match_erf_sum(const Graph& graph, const Links& links, ValueId id) {
    const auto* add = producer_of(graph, links, id, "Add");
    const auto sum = add != nullptr ? with_constant(graph, *add) : std::nullopt;
    if (!sum || !is_number(&*graph.values[sum->constant].constant, 1)) return std::nullopt;
    const auto* erf = producer_of(graph, links, sum->x, "Erf");
    if (erf == nullptr) return std::nullopt;
    const auto* div = producer_of(graph, links, erf->inputs[0], "Div");
    if (div != nullptr && is_number(constant(graph, *div, 1), std::sqrt(2.0))) return div->inputs[0];
    const auto* mul = producer_of(graph, links, erf->inputs[0], "Mul");
    const auto scaled = mul != nullptr ? with_constant(graph, *mul) : std::nullopt;
    if (scaled && is_number(&*graph.values[scaled->constant].constant, std::sqrt(0.5))) return scaled->x;
    return std::nullopt;
}

// The argument of half x: x * 0.5 or x / 2.
std::optional<ValueId> match_half(const Graph& graph, const Links& links, ValueId id) {
    const auto* mul = producer_of(graph, links, id, "Mul");
    const auto half = mul != nullptr ? with_constant(graph, *mul) : std::nullopt;
    if (half && is_number(&*graph.values[half->constant].constant, 0.5)) return half->x;
    const auto* div = producer_of(graph, links, id, "Div");
    if (div != nullptr && is_number(constant(graph, *div, 1), 2)) return div->inputs[0];
    return std::nullopt;
}

// (x (1 + erf(x / sqrt(2)))) / 2 or (x / 2) (1 + erf(x / sqrt(2))).
std::optional<Node> match_gelu(const Graph& graph, const Links& links, const Node& node) {
    if (node.op != "Mul" && node.op != "Div") return std::nullopt;
    const auto gelu = [&](ValueId x) { return Node{node.name, "Gelu", 20, {}, {x}, node.outputs}; };
    const auto product = [&](const Node& mul, const auto& argument) -> std::optional<ValueId> {
        for (const std::size_t k : {0U, 1U}) {
            const auto x = match_erf_sum(graph, links, mul.inputs[k]);
            const auto other = x ? argument(mul.inputs[1 - k]) : std::nullopt;
            if (x && other == *x) return *x;
        }
        return std::nullopt;
    };
    if (node.op == "Mul") {
        if (const auto x = product(node, [&](ValueId id) { return match_half(graph, links, id); }))
            return gelu(*x);
    }
    const auto inner = match_half(graph, links, node.outputs[0]);
    const auto* mul = inner ? producer_of(graph, links, *inner, "Mul") : nullptr;
    if (mul == nullptr) return std::nullopt;
    const auto x = product(*mul, [](ValueId id) { return std::optional(id); });
    return x ? std::optional(gelu(*x)) : std::nullopt;
}

// A product of rows with a constant matrix: "...k,kn->...n", or "...k,nk->...n" (transposed).
struct EinsumMatrix {
    ValueId weight;
    bool transposed;
};
std::optional<EinsumMatrix> match_einsum(const Graph& graph, const Node& node) {
    const auto* w = node.op == "Einsum" && node.inputs.size() == 2 ? constant(graph, node, 1) : nullptr;
    if (w == nullptr || w->type != DType::f32 || w->shape.size() != 2) return std::nullopt;
    auto equation = text_attribute(node, "equation", "");
    std::erase(equation, ' ');
    const auto comma = equation.find(',');
    const auto arrow = equation.find("->");
    if (comma == std::string::npos || comma == 0 || arrow != comma + 3) return std::nullopt;
    const char inner = equation[comma - 1];
    const bool transposed = equation[comma + 2] == inner;
    const char outer = equation[comma + (transposed ? 1 : 2)];
    auto rows = equation.substr(0, comma - 1);
    if (equation[comma + (transposed ? 2 : 1)] != inner || outer == inner ||
        equation.substr(arrow + 2) != rows + outer)
        return std::nullopt;
    const auto& x = graph.values[node.inputs[0]].type.dims;
    if (x && (x->empty() || (x->back().known() && x->back().size != w->shape[transposed ? 1 : 0])))
        return std::nullopt;
    if (rows.starts_with("...")) rows.erase(0, 3);
    rows += {inner, outer};
    std::ranges::sort(rows);
    if (rows.find('.') != std::string::npos || std::ranges::adjacent_find(rows) != rows.end())
        return std::nullopt;
    return EinsumMatrix{node.inputs[1], transposed};
}

Tensor transposed_matrix(const Tensor& w) {
    Tensor out(w.type, {w.shape[1], w.shape[0]});
    const auto rows = static_cast<std::size_t>(w.shape[0]);
    const auto cols = static_cast<std::size_t>(w.shape[1]);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c)
            out.values<float>()[c * rows + r] = w.values<float>()[r * cols + c];
    }
    return out;
}

// Such products become MatMul, so that their matrices can be placed on a chip. A transposed matrix keeps its
// name if nothing else needs the original.
void replace_einsum(Graph& graph) {
    const Links links(graph);
    std::vector<std::optional<EinsumMatrix>> matches;
    for (const auto& node : graph.nodes) matches.push_back(match_einsum(graph, node));
    std::map<ValueId, ValueId> transposed;  // replacements of transposed matrices
    const auto weight_of = [&](const EinsumMatrix& m) {
        if (!m.transposed) return m.weight;
        if (const auto known = transposed.find(m.weight); known != transposed.end()) return known->second;
        auto tensor = transposed_matrix(*graph.values[m.weight].constant);
        auto id = m.weight;
        const bool needed = links.is_output[id] || std::ranges::any_of(links.users[id], [&](std::size_t n) {
                                return !matches[n] || !matches[n]->transposed;
                            });
        if (needed) {
            const auto name = unused_name(graph, graph.values[id].name + ".transposed");
            id = add_constant(graph, name, std::move(tensor));
        } else {
            graph.values[id].type = type_of(std::as_const(tensor).view());
            graph.values[id].constant = std::move(tensor);
        }
        return transposed[m.weight] = id;
    };
    for (std::size_t n = 0; n < matches.size(); ++n) {
        auto& node = graph.nodes[n];
        if (matches[n])
            node = {node.name,   "MatMul", node.opset, {}, {node.inputs[0], weight_of(*matches[n])},
                    node.outputs};
    }
}

// Replaces the last node of each pattern; nodes that become unused are removed later.
void recognize(Graph& graph) {
    const Links links(graph);
    std::vector<std::pair<std::size_t, Node>> found;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const auto& node = graph.nodes[n];
        if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) continue;
        auto match = match_layer_norm(graph, links, node);
        if (!match) match = match_gelu(graph, links, node);
        if (match) found.emplace_back(n, std::move(*match));
    }
    for (auto& [n, node] : found) graph.nodes[n] = std::move(node);
}

void remove_unused(Graph& graph) {
    std::vector<bool> needed(graph.values.size());
    for (const auto id : graph.outputs) needed[id] = true;
    for (const auto id : graph.inputs) needed[id] = true;
    std::vector<Node> kept;
    // clang 14 does not compile std::views::reverse.
    // NOLINTNEXTLINE(modernize-loop-convert)
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
        const bool used =
            std::ranges::any_of(node->outputs, [&](ValueId id) { return id != kNoValue && needed[id]; });
        if (!used) continue;
        for (const auto id : node->inputs) {
            if (id != kNoValue) needed[id] = true;
        }
        for (const auto id : node->outputs) {
            if (id != kNoValue) needed[id] = true;
        }
        kept.push_back(std::move(*node));
    }
    std::ranges::reverse(kept);
    graph.nodes = std::move(kept);
    std::vector<ValueId> number(graph.values.size(), kNoValue);
    std::vector<Value> values;
    for (std::size_t id = 0; id < number.size(); ++id) {
        if (!needed[id]) continue;
        number[id] = static_cast<ValueId>(values.size());
        values.push_back(std::move(graph.values[id]));
    }
    graph.values = std::move(values);
    const auto renumber = [&](std::vector<ValueId>& ids) {
        for (auto& id : ids) id = id == kNoValue ? id : number[id];
    };
    for (auto& node : graph.nodes) {
        renumber(node.inputs);
        renumber(node.outputs);
    }
    renumber(graph.inputs);
    renumber(graph.outputs);
}

}  // namespace

Graph simplified(Graph graph) {
    fold_all_constants(graph);
    while (fold_batch_norm(graph)) {
    }
    recognize(graph);
    replace_einsum(graph);
    remove_unused(graph);
    infer_types(graph);
    return graph;
}

}  // namespace imka::graph

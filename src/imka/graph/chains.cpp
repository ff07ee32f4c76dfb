#include "imka/graph/chains.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "imka/graph/operator.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka::graph {
namespace {

bool is_elementwise(const Node& node) {
    return std::ranges::any_of(elementwise_operators(),
                               [&](const Operator& op) { return op.name == node.op && op.most_inputs <= 2; });
}

// Whether a node is a function of the last axis.
bool maps_rows(const Node& node) {
    const bool softmax = node.op == "Softmax" && node.opset >= 13;
    return (softmax || node.op == "LayerNormalization") && int_attribute(node, "axis", -1) == -1;
}

// The shape without its last axes; nullopt if it is unknown or has no other axes.
std::optional<Shape> leading_axes(const Graph& graph, ValueId id, std::size_t inner_axes) {
    auto shape = known_shape(graph.values[id].type);
    if (!shape || shape->size() <= inner_axes) return std::nullopt;
    shape->resize(shape->size() - inner_axes);
    return shape;
}

// What all nodes of a chain share.
struct Common {
    Shape leading;
    std::size_t inner_axes;
};

// An input that is the same for all slices.
bool is_whole(const Graph& graph, ValueId id, const Common& common) {
    const auto shape = known_shape(graph.values[id].type);
    return shape && shape->size() <= common.inner_axes;
}

// Which inputs of a node are sliced; nullopt if it cannot be part of the chain.
std::optional<std::vector<bool>> sliced_inputs(const Graph& graph, const Node& node, bool is_static,
                                               const Common& common) {
    const bool product = node.op == "MatMul" || (node.op == "Gemm" && is_static);
    if (node.outputs.size() != 1 || !(product || maps_rows(node) || is_elementwise(node)))
        return std::nullopt;
    if (leading_axes(graph, node.outputs[0], common.inner_axes) != common.leading) return std::nullopt;
    if (node.op == "MatMul" && !is_static && common.inner_axes != 2) return std::nullopt;
    std::vector<bool> sliced;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const auto id = node.inputs[k];
        const bool weights = is_static && k == 1;
        const bool whole = id == kNoValue || weights || is_whole(graph, id, common);
        if (!whole && leading_axes(graph, id, common.inner_axes) != common.leading) return std::nullopt;
        // Products of two matrices have two arguments; other products and functions of rows have one.
        const bool argument = k == 0 || (product && !is_static);
        if (!is_elementwise(node) && whole == argument) return std::nullopt;
        sliced.push_back(!whole);
    }
    return sliced;
}

std::size_t units_per_slice(const Graph& graph, const Node& node, const Common& common) {
    if (common.inner_axes == 1) return kTileRows;
    constexpr std::size_t kElements = std::size_t{1} << 16U;
    const auto shape = *known_shape(graph.values[node.outputs[0]].type);
    const auto matrix = element_count(Shape(shape.end() - 2, shape.end()));
    return kElements / std::max<std::size_t>(matrix, 1) + 1;
}

}  // namespace

std::vector<Chain> find_chains(const Graph& graph, const std::function<bool(std::size_t node)>& is_static) {
    std::vector<Chain> chains;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const auto& first = graph.nodes[n];
        const std::size_t inner_axes = first.op == "MatMul" && !is_static(n) ? 2 : 1;
        const auto id = first.outputs[0];
        const auto leading = id == kNoValue ? std::nullopt : leading_axes(graph, id, inner_axes);
        if (!leading) continue;
        const Common common{*leading, inner_axes};
        Chain chain{.first_node = n, .inner_axes = inner_axes, .units = element_count(*leading)};
        chain.units_per_slice = units_per_slice(graph, first, common);
        for (std::size_t next = n; next < graph.nodes.size(); ++next) {
            auto sliced = sliced_inputs(graph, graph.nodes[next], is_static(next), common);
            if (!sliced) break;
            chain.sliced.push_back(std::move(*sliced));
        }
        if (chain.nodes() < 2) continue;
        n += chain.nodes() - 1;
        chains.push_back(std::move(chain));
    }
    return chains;
}

bool runs_in_place(const Node& node) {
    return node.outputs.size() == 1 && (is_elementwise(node) || maps_rows(node));
}

}  // namespace imka::graph

// Digital work of the operators of imka's own models (graph/op_imka.cpp).
#pragma once

#include <optional>
#include <span>

#include "imka/deploy/mapping_cost.hpp"
#include "imka/graph/graph.hpp"

namespace imka {

// inputs: the shapes of the node's inputs; empty for omitted ones. None for operators of ONNX. Comparisons
// count as additions, all transcendental functions as exponentials.
std::optional<DigitalWork> imka_work(const graph::Node& node, std::span<const graph::Shape> inputs);

// Work of imka.Attention: φ(K)ᵀV and φ(K)ᵀ1, summed key by key, and the remaining work of the queries.
struct AttentionWork {
    DigitalWork keys;
    DigitalWork queries;
};
AttentionWork attention_work(const graph::Node& node, std::span<const graph::Shape> inputs);

}  // namespace imka

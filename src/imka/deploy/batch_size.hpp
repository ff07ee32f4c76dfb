// How many inferences of a graph run at once.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "imka/graph/graph.hpp"

namespace imka {

// Shapes of the inputs with this batch size.
std::vector<graph::Shape> batch_shapes(std::span<const graph::TensorView> inputs, std::size_t batch);

// The fixed first axis of the graph's inputs, if it has one.
std::optional<std::size_t> fixed_batch(const graph::Graph& graph);

// Elements of the largest intermediate tensor of one inference. A byte of text can become a long vector.
std::size_t largest_tensor(const graph::Graph& graph, std::span<const graph::TensorView> inputs);

// Inferences per batch: fixed_batch, or as many as fit most_elements per tensor; at least one.
inline constexpr std::size_t kMostElements = std::size_t{1} << 26U;  // of BatchRunner
std::size_t batch_size(const graph::Graph& graph, std::span<const graph::TensorView> inputs,
                       std::size_t most_elements = kMostElements);

}  // namespace imka

// Which matrices of a graph run on a chip, and their sizes for the mapper.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/deploy/matrix_list.hpp"
#include "imka/graph/graph.hpp"

namespace imka {

// Names of static matrices of the graph, in their order. `choice`: "all"; "all-but-last" (without those of
// the last node); "projection" (random features: names with "projection" or "omega"); or names of matrices or
// nodes, separated by commas. Error{bad_config} that lists the names if nothing fits, and for a graph without
// matrices.
std::vector<std::string> choose_matrices(const graph::Graph& graph, std::string_view choice);

// Their sizes, call sites and vectors per inference; 1 vector where shapes are unknown.
MatrixList matrix_list(const graph::Graph& graph, std::span<const std::string> names);

// The graph with the shapes of one inference: an unknown first axis is 1, other unknown sizes are those of
// `examples` (one shape per input, or empty). Error{bad_data} names an input whose size stays unknown.
graph::Graph with_one_inference(const graph::Graph& graph, const std::vector<graph::Shape>& examples);

}  // namespace imka

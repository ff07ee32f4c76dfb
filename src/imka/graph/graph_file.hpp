// Graphs in safetensors files: nodes and values as JSON, constants as tensors.
#pragma once

#include "imka/graph/graph.hpp"
#include "imka/io/sealed_tensors.hpp"

namespace imka::graph {

// Adds the metadata "graph" and the tensors "graph.<number>".
void add_graph(const Graph& graph, TensorFile& file);

// Error{bad_data} if the graph is missing, of another form or not valid (verify).
Graph read_graph(SealedReader& file);

}  // namespace imka::graph

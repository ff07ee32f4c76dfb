// Rewrites a graph to fewer nodes with the same results.
#pragma once

#include "imka/graph/graph.hpp"

namespace imka::graph {

// Computes values that depend only on constants, including known shapes; folds BatchNormalization into a Conv
// or Gemm before it; replaces the nodes that exporters write for LayerNormalization and Gelu by one node;
// removes nodes and values that nothing reads. Results agree up to rounding.
Graph simplified(Graph graph);

}  // namespace imka::graph

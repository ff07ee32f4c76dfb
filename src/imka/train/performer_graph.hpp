// A Performer as a graph, to run and deploy it like any network.
#pragma once

#include <span>
#include <string>

#include "imka/base/matrix.hpp"
#include "imka/graph/graph.hpp"
#include "imka/train/performer.hpp"

namespace imka {

// Inputs: "tokens" (u8, batch x tokens) and, for table embeddings, "lengths" (i64, batch): tokens beyond a
// document's length are padding and change nothing. Models of two documents also have "tokens2" and
// "lengths2". Output: "logits" (batch x classes). `omega`: one m x head size matrix per layer; equal ones
// share a matrix. Constants of products have the names of the parameters ("layer0.q.weight") and "omega0",
// "omega1", ... Exact attention needs no omega.
// Error{bad_data} if a tensor is missing or has another shape.
graph::Graph graph_of(const Performer& model, std::span<const Matrix<float>> omega);

// Names of values in that graph: queries, keys or values ("q", "k", "v") of the last layer, for the first
// document (batch x heads x tokens x head size).
std::string last_heads(const PerformerConfig& config, const std::string& part);

}  // namespace imka

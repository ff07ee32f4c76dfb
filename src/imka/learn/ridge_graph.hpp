// A ridge model as a graph, to deploy it like any network.
#pragma once

#include "imka/graph/graph.hpp"
#include "imka/learn/ridge_model.hpp"

namespace imka {

// Input "x": raw rows (they are standardised if the model has statistics). Outputs "scores" (f64, one per
// output) and, for a classifier, "class" (i64, index in model.classes). The matrix "projection" is Ω. The
// same bits as RidgePredictor.
graph::Graph graph_of(const RidgeModel& model);

}  // namespace imka

// The weight matrices of a graph that do not change between runs and can be placed on a chip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/graph/graph.hpp"

namespace imka::graph {

// A node that multiplies rows with the matrix.
struct MatrixUse {
    std::size_t node = 0;                   // index in Graph::nodes
    std::optional<std::int64_t> rows = {};  // per run; nullopt if it depends on sizes not known yet
};

struct StaticMatrix {
    std::string name;       // of the weight tensor; ".g1" for group 1 of several
    ValueId weight = 0;     // in Graph::values
    std::size_t group = 0;  // of a convolution
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    bool transposed = false;      // the tensor is stored outputs x inputs
    std::vector<MatrixUse> uses;  // nodes that share the weight
};

// Matrices of MatMul and Gemm with a constant second input and of Conv with constant weights, one per group.
// A convolution multiplies its windows: channels x kernel elements, in this order.
std::vector<StaticMatrix> static_matrices(const Graph& graph);

// The same, by name.
std::map<std::string, StaticMatrix> matrices_by_name(const Graph& graph);

// The elements, inputs x outputs.
Matrix<float> weights_of(const Graph& graph, const StaticMatrix& matrix);

}  // namespace imka::graph

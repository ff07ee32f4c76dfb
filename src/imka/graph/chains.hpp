// Neighbouring nodes that can run slice by slice: a slice of the first output goes through all of them while
// it is in the cache.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "imka/graph/graph.hpp"

namespace imka::graph {

// All outputs have the same leading axes. A slice is a range of their elements: of rows if the nodes work on
// the last axis, of matrices if they work on the last two.
struct Chain {
    std::size_t first_node = 0;
    std::vector<std::vector<bool>> sliced = {};  // per node and input; other inputs are used whole
    std::size_t inner_axes = 1;
    std::size_t units = 0;            // rows or matrices
    std::size_t units_per_slice = 1;  // as many as stay in the cache

    std::size_t nodes() const { return sliced.size(); }
    std::size_t slices() const { return (units + units_per_slice - 1) / units_per_slice; }
};

// Chains of at least two nodes, in the order of the nodes. is_static: whether a node multiplies rows with one
// constant matrix. Results are the same bits as without chains.
std::vector<Chain> find_chains(const Graph& graph, const std::function<bool(std::size_t node)>& is_static);

// Whether output 0 may reuse the memory of an input with the same type and shape.
bool runs_in_place(const Node& node);

}  // namespace imka::graph

// Graphs in safetensors files: nodes and values as JSON, constants as tensors.
#pragma once

#include <filesystem>
#include <string_view>

#include "imka/graph/graph.hpp"
#include "imka/io/sealed_tensors.hpp"

namespace imka::graph {

// Adds the metadata "graph" and the tensors "graph.<number>".
void add_graph(const Graph& graph, TensorFile& file);

// Error{bad_data} if the graph is missing, malformed or not valid (verify).
Graph read_graph(SealedReader& file);

// A file with a graph only. A loaded graph computes the same bits.
inline constexpr std::string_view kGraphFormat = "imka-graph";
void save_graph(const std::filesystem::path& path, const Graph& graph);
// Error{bad_data} that names the file if anything is missing, unexpected or does not match the checksum.
Graph load_graph(const std::filesystem::path& path);

}  // namespace imka::graph

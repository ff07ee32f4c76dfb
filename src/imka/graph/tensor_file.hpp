// Tensors in NPY files: inputs and outputs of a network.
#pragma once

#include <filesystem>
#include <vector>

#include "imka/graph/graph.hpp"
#include "imka/graph/tensor.hpp"

namespace imka::graph {

// The array for an input of a network, converted to the type of the input. Integers that do not fit wrap
// around. Error{bad_data} if the file holds floats and the input does not. The shape is as in the file.
Tensor read_tensor(const std::filesystem::path& path, const Value& input);

// The same from an NPZ file with an array for every input, by name; Error{bad_data} if an array is missing or
// matches no input.
std::vector<Tensor> read_tensors(const std::filesystem::path& path, const Graph& graph);

// NPY files here have no 16-bit floats: these are written as float32.
void write_tensor(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace imka::graph

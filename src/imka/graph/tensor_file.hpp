// Tensors in NPY files: inputs and outputs of a network.
#pragma once

#include <filesystem>

#include "imka/graph/graph.hpp"
#include "imka/graph/tensor.hpp"

namespace imka::graph {

// The array for an input of a network, converted to the type of the input. Integers that do not fit wrap
// around. Error{bad_data} if the file holds floats and the input does not. The shape is as in the file.
Tensor read_tensor(const std::filesystem::path& path, const Value& input);

// NPY files here have no 16-bit floats: these are written as float32.
void write_tensor(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace imka::graph

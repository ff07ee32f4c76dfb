// Reads ONNX models (operator sets 1 to 25; see docs/graph.md for the operators) and tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "imka/graph/graph.hpp"

namespace imka::graph {

// Whether this build can read ONNX files (CMake option IMKA_ONNX).
bool has_onnx();
// Release of ONNX with which this build reads files, such as "1.12.0"; empty in a build without ONNX.
std::string_view onnx_release();

// The graph of a model: sorted, with inferred types, verified and simplified (simplify.hpp). Weights in other
// files must lie in the folder of the model or below it. Error{bad_data} if the file is not valid or uses
// unsupported features (UnsupportedError); Error{missing_part} in a build without ONNX.
Graph load_onnx(const std::filesystem::path& path);

struct OnnxSource {
    std::string name;              // for messages
    std::filesystem::path folder;  // of external data; empty: none is allowed
};
// The same from bytes. Does not simplify.
Graph parse_onnx(std::string_view bytes, const OnnxSource& source);

// A file with one tensor (TensorProto), as in the ONNX test data.
Tensor load_onnx_tensor(const std::filesystem::path& path);

}  // namespace imka::graph

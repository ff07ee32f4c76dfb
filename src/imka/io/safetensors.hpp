// safetensors files: a JSON header and raw tensors. One file holds a model. Never pickle.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

// Tensors of rank 1 or 2 by name (rank 1 is one row), and text metadata.
struct TensorFile {
    std::map<std::string, std::string> metadata;
    std::map<std::string, Matrix<float>> f32;
    std::map<std::string, Matrix<double>> f64;
};

// Error{bad_usage} where a name stands twice, is "__metadata__", or any text is not UTF-8. Atomic.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// Checks every offset, shape and type against the file's size before use; Error{bad_data} says what is wrong.
TensorFile read_safetensors(const std::filesystem::path& path);
// From a stream of known size, opened with StreamOptions::decompress off: the length at the head of a file
// may look like the mark of a compressed one.
TensorFile read_safetensors(ByteStream stream);

}  // namespace imka

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
    std::map<std::string, Matrix<std::uint8_t>> u8;  // any other data as bytes
};

// Writes atomically. Error{bad_usage} if a name occurs twice or is "__metadata__", or if any text is not
// UTF-8.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// Checks every offset, shape and type against the file size before use; Error{bad_data} if invalid.
TensorFile read_safetensors(const std::filesystem::path& path);
// From a stream of known size, opened without StreamOptions::decompress: the length at the start of a file
// may look like the marker of a compressed file.
TensorFile read_safetensors(ByteStream stream);

// Whether a file begins like a safetensors file: the length of the header, then its opening brace. False if
// the file cannot be read.
bool begins_like_safetensors(const std::filesystem::path& path);

}  // namespace imka

// The file of a matrix on a chip, in whatever state it is: safetensors that anything can read, sealed by a
// checksum (docs/formats.md describes it).
#pragma once

#include <filesystem>
#include <string>

#include "imka/chip/chip_matrix.hpp"
#include "imka/io/safetensors.hpp"

namespace imka {

// Atomic. What is loaded again multiplies with the same bits, now and at any later time.
void save_chip_matrix(const std::filesystem::path& path, const ChipMatrix& chip);

// Error{bad_data} that names the file for anything that is missing, left over, of another shape, out of
// range, or not what the checksum says.
ChipMatrix load_chip_matrix(const std::filesystem::path& path);

// The same without a file. `to_tensors` sets the checksum, `from_tensors` demands it.
TensorFile to_tensors(const ChipMatrix& chip);
ChipMatrix from_tensors(TensorFile file);

// SHA-256 over metadata (but for the entry "sha256") and tensors: names, shapes, bytes.
std::string checksum(const TensorFile& file);

}  // namespace imka

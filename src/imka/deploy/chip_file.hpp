// Chip file: a plan and, if programmed, the state of every device. A safetensors file with a checksum
// (docs/formats.md).
#pragma once

#include <filesystem>

#include "imka/chip/programmed_chip.hpp"
#include "imka/io/sealed_tensors.hpp"

namespace imka {

// Atomic. A loaded chip multiplies with the same bits, now and at any later time.
void save_chip_file(const std::filesystem::path& path, const ProgrammedChip& chip);
void save_plan_file(const std::filesystem::path& path, const Plan& plan);

// Error{bad_data} that names the file if anything is missing, unexpected, of another shape, out of range,
// or does not match the checksum.
ProgrammedChip load_chip_file(const std::filesystem::path& path);
// The plan, from a file with or without a programmed chip.
Plan load_plan_file(const std::filesystem::path& path);

// The same without a file.
TensorFile to_tensors(const ProgrammedChip& chip);
TensorFile to_tensors(const Plan& plan);
ProgrammedChip chip_from_tensors(TensorFile file);
Plan plan_from_tensors(TensorFile file);

}  // namespace imka

// The file of a chip: a plan and, where it is programmed, the state of every device. safetensors, sealed by a
// checksum (docs/formats.md).
#pragma once

#include <filesystem>

#include "imka/chip/programmed_chip.hpp"
#include "imka/deploy/sealed_tensors.hpp"

namespace imka {

// Atomic. A chip that is loaded again multiplies with the same bits, now and at any later time.
void save_chip_file(const std::filesystem::path& path, const ProgrammedChip& chip);
void save_plan_file(const std::filesystem::path& path, const Plan& plan);

// Error{bad_data} that names the file for anything that is missing, left over, of another shape, out of
// range, or not what the checksum says.
ProgrammedChip load_chip_file(const std::filesystem::path& path);
// The plan of either kind of file.
Plan load_plan_file(const std::filesystem::path& path);

// The same without a file.
TensorFile to_tensors(const ProgrammedChip& chip);
TensorFile to_tensors(const Plan& plan);
ProgrammedChip chip_from_tensors(TensorFile file);
Plan plan_from_tensors(TensorFile file);

}  // namespace imka

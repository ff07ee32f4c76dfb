// Files of deployed models (.plan): graph, placement, calibration and programmed devices in one safetensors
// file with a checksum (docs/formats.md).
#pragma once

#include <filesystem>
#include <string_view>

#include "imka/deploy/deployed_model.hpp"
#include "imka/io/safetensors.hpp"

namespace imka {

inline constexpr std::string_view kPlanFormat = "imka-plan";  // in the metadata

// Atomic. A loaded model computes the same bits.
void save_model(const std::filesystem::path& path, const DeployedModel& model);
// Error{bad_data} that names the file if anything is missing, unexpected, out of range, does not match the
// checksum, or if regions overlap.
DeployedModel load_deployed(const std::filesystem::path& path);

// The same without a file.
TensorFile to_tensors(const DeployedModel& model);
DeployedModel model_from_tensors(TensorFile file);

}  // namespace imka

// The matrix of an estimator on a chip, and its files.
#pragma once

#include <cstdint>
#include <memory>

#include "imka/base/exec.hpp"
#include "imka/chip/build.hpp"
#include "imka/experiment/run.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/features/project_chip.hpp"

namespace imka::python {

// Ω of the recipe on the chip of the settings, calibrated on `inputs`.
BuiltChip chip_of(const RunConfig& config, const FeatureRecipe& recipe, MatrixView<const float> inputs,
                  std::uint64_t chip_seed, const Exec& exec);

// The matrix of this chip.
std::unique_ptr<ChipProjector> projector_on(const BuiltChip& built, const Exec& exec);
// The features of a recipe, computed on this chip.
FeatureMap map_on(const BuiltChip& built, const FeatureRecipe& recipe, const Exec& exec);

// The recipe of the settings for these training rows. n_components is rounded up to whole directions.
FeatureRecipe recipe_of(const RunConfig& config, MatrixView<const float> x, std::uint64_t seed);

}  // namespace imka::python

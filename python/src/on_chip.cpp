#include "on_chip.hpp"

#include <memory>

#include "imka/chip/simulate/emulator.hpp"
#include "imka/features/config.hpp"
#include "imka/kernel/kernel.hpp"

namespace imka::python {

BuiltChip chip_of(const RunConfig& config, const FeatureRecipe& recipe, MatrixView<const float> inputs,
                  std::uint64_t chip_seed, const Exec& exec) {
    const auto& omega = recipe.omega;
    const auto chip = resolve_chip(config.backend, config.chip);
    const auto law = kernel_info(omega.kernel).feature_law(omega.gamma, static_cast<std::size_t>(omega.d));
    const auto directions = sample(omega, exec);
    return build_chip(ProjectionJob{.chip = chip,
                                    .omega = directions,
                                    .inputs = inputs,
                                    .config = config.chip.projection,
                                    .seed = chip_seed,
                                    .input_scale = law.input_scale},
                      exec);
}

std::unique_ptr<ChipProjector> projector_on(const BuiltChip& built, const Exec& exec) {
    return std::make_unique<ChipProjector>(
        std::make_unique<FastEmulator>(built.chip, exec), 0,
        ChipOutputs{.factors = built.factors, .lost_rows = built.lost_rows});
}

FeatureMap map_on(const BuiltChip& built, const FeatureRecipe& recipe, const Exec& exec) {
    return {recipe, projector_on(built, exec)};
}

FeatureRecipe recipe_of(const RunConfig& config, MatrixView<const float> x, std::uint64_t seed) {
    auto features = config.features;
    // scikit-learn's transformers accept any number, which is rounded up to whole directions.
    if (auto& count = features.n_components) {
        const auto step = static_cast<std::int64_t>(functions_per_direction(features.kernel, features.form));
        *count = (*count + step - 1) / step * step;
    }
    return resolve(features, feature_use(config), input_statistics(features, x), seed);
}

}  // namespace imka::python

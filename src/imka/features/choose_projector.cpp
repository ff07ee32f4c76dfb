#include "imka/features/choose_projector.hpp"

#include <bit>
#include <cstddef>
#include <limits>
#include <utility>

#include "imka/features/project_digital.hpp"
#include "imka/features/project_sorf.hpp"
#include "imka/omega/samplers.hpp"
#include "imka/ops/fwht/sign_hadamard.hpp"

namespace imka {
namespace {

// Nanoseconds an output, fitted to one core of a Zen 4 processor over d = 1..4096, m = 64..4096 in tiles of
// kTileRows rows. They follow the measured ratio of the two costs within some tens of percent from d = 16
// on; `imka bench sorf` measures it at d = 512.
constexpr double kDenseFixed = 0.08;
constexpr double kDenseInput = 0.02;  // for each of the d inputs
constexpr double kStructuredFixed = 0.17;
constexpr double kStructuredLevel = 0.055;  // for each of the log2(n) levels of the three transforms

bool prefers_structured(const OmegaRecipe& recipe) {
    const auto cost = projection_cost(recipe);
    return cost.dense >= kLeastGain * cost.structured;
}

}  // namespace

ProjectionCost projection_cost(const OmegaRecipe& recipe) {
    const auto d = static_cast<double>(recipe.d);
    const double dense = static_cast<double>(recipe.m) * (kDenseFixed + kDenseInput * d);
    if (!has_sorf_structure(recipe)) return {dense, std::numeric_limits<double>::infinity()};
    const std::size_t n = sorf_block_rows(recipe);
    const auto outputs = static_cast<double>(padded_outputs(n, static_cast<std::size_t>(recipe.m)));
    return {dense, outputs * (kStructuredFixed + kStructuredLevel * std::countr_zero(n))};
}

std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, const Exec& exec) {
    validate(recipe);
    if (prefers_structured(recipe)) return std::make_unique<SorfProjector>(recipe, exec);
    return std::make_unique<DigitalProjector>(sample(recipe, exec));
}

std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, Matrix<float> omega,
                                                  const Exec& exec) {
    validate(recipe);
    if (prefers_structured(recipe) && omega == sample(recipe, exec))
        return std::make_unique<SorfProjector>(recipe, exec);
    return std::make_unique<DigitalProjector>(std::move(omega));
}

}  // namespace imka

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

bool prefers_structured(const OmegaRecipe& recipe) {
    const auto cost = projection_cost(recipe);
    return cost.dense >= kLeastGain * cost.structured;
}

// Outputs of the transforms, of which m are kept, and levels of one transform.
struct Structure {
    double outputs;
    double levels;
};
Structure structure_of(const OmegaRecipe& recipe) {
    const std::size_t n = sorf_block_rows(recipe);
    return {static_cast<double>(padded_outputs(n, static_cast<std::size_t>(recipe.m))),
            static_cast<double>(std::countr_zero(n))};
}

// cost = fixed + slope x, each point weighted by 1 / cost²: sums of the normal equations.
class LineFit {
public:
    void add(double x, double cost) {
        const double weight = 1.0 / (cost * cost);
        w_ += weight;
        wx_ += weight * x;
        wxx_ += weight * x * x;
        wy_ += weight * cost;
        wxy_ += weight * x * cost;
    }
    double slope() const { return (w_ * wxy_ - wx_ * wy_) / (w_ * wxx_ - wx_ * wx_); }
    double fixed() const { return (wy_ - slope() * wx_) / w_; }

private:
    double w_ = 0.0, wx_ = 0.0, wxx_ = 0.0, wy_ = 0.0, wxy_ = 0.0;
};

}  // namespace

ProjectionCost projection_cost(const OmegaRecipe& recipe, const ProjectionConstants& c) {
    const auto d = static_cast<double>(recipe.d);
    const double dense = static_cast<double>(recipe.m) * (c.dense_fixed + c.dense_input * d);
    if (!has_sorf_structure(recipe)) return {dense, std::numeric_limits<double>::infinity()};
    const auto structure = structure_of(recipe);
    return {dense, structure.outputs * (c.structured_fixed + c.structured_level * structure.levels)};
}

ProjectionConstants fit_projection_constants(std::span<const ProjectionTiming> timings) {
    LineFit dense;
    LineFit structured;
    for (const auto& t : timings) {
        const auto structure = structure_of(t.recipe);
        dense.add(static_cast<double>(t.recipe.d), t.cost.dense / static_cast<double>(t.recipe.m));
        structured.add(structure.levels, t.cost.structured / structure.outputs);
    }
    return {.dense_fixed = dense.fixed(),
            .dense_input = dense.slope(),
            .structured_fixed = structured.fixed(),
            .structured_level = structured.slope()};
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

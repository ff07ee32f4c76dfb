// Dense or structured projection, whichever is cheaper for a recipe (docs/adr/0008-structured-projection.md).
#pragma once

#include <memory>

#include "imka/base/exec.hpp"
#include "imka/features/projector.hpp"
#include "imka/omega/omega.hpp"

namespace imka {

// Estimated time to project one row on one core, in nanoseconds of the machine where the constants were
// measured; only their ratio matters. A function of d and m alone, so that a recipe is projected the same way
// in every run and on every machine. structured is infinite where Ω has no such structure.
struct ProjectionCost {
    double dense = 0.0;
    double structured = 0.0;
};
ProjectionCost projection_cost(const OmegaRecipe& recipe);

// Structured only where that is this much cheaper: within less, machines differ and the dense product is the
// more accurate of the two for small d.
inline constexpr double kLeastGain = 1.5;

std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, const Exec& exec = {});

// The same for an Ω that was drawn before or read from a file: structured only if omega has the bits of
// sample(recipe), so that a changed Ω is used as it is.
std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, Matrix<float> omega,
                                                  const Exec& exec = {});

}  // namespace imka

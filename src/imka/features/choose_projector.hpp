// Dense or structured projection, whichever is cheaper for a recipe (docs/adr/0008-structured-projection.md).
#pragma once

#include <memory>
#include <span>

#include "imka/base/exec.hpp"
#include "imka/features/projector.hpp"
#include "imka/omega/omega.hpp"

namespace imka {

// Nanoseconds an output on one core. n is d rounded up to a power of two.
struct ProjectionConstants {
    double dense_fixed = 0.0;
    double dense_input = 0.0;  // for each of the d inputs
    double structured_fixed = 0.0;
    double structured_level = 0.0;  // for each of the log2(n) levels of the three transforms
};

// Measured once on a Zen 4 processor over d = 1..4096, m = 64..4096 in tiles of kTileRows rows, and part of
// every result's bits since: `imka bench --calibrate` measures them again and says what a change would do.
inline constexpr ProjectionConstants kProjectionConstants = {
    .dense_fixed = 0.08, .dense_input = 0.02, .structured_fixed = 0.17, .structured_level = 0.055};

// Estimated time to project one row on one core, in nanoseconds of the machine where the constants were
// measured; only their ratio matters. A function of d and m alone, so that a recipe is projected the same way
// in every run and on every machine. structured is infinite where Ω has no such structure.
struct ProjectionCost {
    double dense = 0.0;
    double structured = 0.0;
    double gain() const { return dense / structured; }
};
ProjectionCost projection_cost(const OmegaRecipe& recipe,
                               const ProjectionConstants& constants = kProjectionConstants);

// The constants that come closest to costs that were measured: least squares of relative errors. Needs two
// different d and two different n.
struct ProjectionTiming {
    OmegaRecipe recipe;  // one with structure
    ProjectionCost cost;
};
ProjectionConstants fit_projection_constants(std::span<const ProjectionTiming> timings);

// Structured only where that is this much cheaper: within less, machines differ and the dense product is the
// more accurate of the two for small d.
inline constexpr double kLeastGain = 1.5;

std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, const Exec& exec = {});

// The same for an Ω that was drawn before or read from a file: structured only if omega has the bits of
// sample(recipe), so that a changed Ω is used as it is.
std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, Matrix<float> omega,
                                                  const Exec& exec = {});

}  // namespace imka

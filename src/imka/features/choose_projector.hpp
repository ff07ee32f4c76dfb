// Projection on this processor: by matrix product or by transforms, and the choice between them.
#pragma once

#include <memory>
#include <span>

#include "imka/base/exec.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/omega/omega.hpp"
#include "imka/ops/fwht/fwht.hpp"
#include "imka/ops/panel/panel.hpp"

namespace imka {

// Projection by matrix product in float32.
class DigitalProjector : public Projector {
public:
    explicit DigitalProjector(const Matrix<float>& omega) : omega_(ops::packed_transposed(omega)) {}
    std::size_t inputs() const override { return omega_.rows(); }
    std::size_t outputs() const override { return omega_.cols(); }
    void project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                 MatrixView<float> u) const override;
    std::unique_ptr<const GpuProjector> on_gpu(int gpu) const override;

private:
    ops::Panels omega_;  // d x m
};

// Projection by sign flips and Walsh-Hadamard transforms, without computing the Ω of a sorf recipe.

// Whether Ω is such a product: sorf, unless the entries of Ω are clamped (truncation in the standard
// convention).
bool has_sorf_structure(const OmegaRecipe& recipe);

// Agrees with the product by sample(recipe) within the rounding of both: an output of the transforms is
// within (3 log2(n) + 3) u |row| |x| of the product with that Ω, u = 2^-24, n = d rounded up to a power of
// two, |row| the length of the n-dimensional row (omega_scale sqrt(n) for sqrt norms and Gaussian laws).
class SorfProjector : public Projector {
public:
    // Needs has_sorf_structure(recipe) and memory for four values per output; Error{bad_config} otherwise.
    // Draws on all cores by default.
    explicit SorfProjector(const OmegaRecipe& recipe, const Exec& exec = {});
    std::size_t inputs() const override { return matrix_.d; }
    std::size_t outputs() const override { return matrix_.m; }
    void project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                 MatrixView<float> u) const override;
    // By transforms up to blocks of 1024 rows, as a dense matrix beyond that.
    std::unique_ptr<const GpuProjector> on_gpu(int gpu) const override;

private:
    SignHadamard matrix_;
};

// Dense or structured projection, whichever is cheaper for a recipe (docs/adr/0008-structured-projection.md).

// Nanoseconds per output on one core. n is d rounded up to a power of two.
struct ProjectionConstants {
    double dense_fixed = 0.0;
    double dense_input = 0.0;  // per input (d)
    double structured_fixed = 0.0;
    double structured_level = 0.0;  // per level of the three transforms (log2(n))
};

// Measured once on a Zen 4 processor for d = 1..4096, m = 64..4096 in tiles of kTileRows rows. Changing them
// changes the bits of results; `imka bench --calibrate` measures them again and reports the effect of a
// change.
inline constexpr ProjectionConstants kProjectionConstants = {
    .dense_fixed = 0.08, .dense_input = 0.02, .structured_fixed = 0.17, .structured_level = 0.055};

// Estimated time to project one row on one core, in nanoseconds on the machine where the constants were
// measured; only the ratio matters. Depends only on d and m, so that a recipe is projected the same way in
// every run and on every machine. structured is infinite if Ω has no such structure.
struct ProjectionCost {
    double dense = 0.0;
    double structured = 0.0;
    double gain() const { return dense / structured; }
};
ProjectionCost projection_cost(const OmegaRecipe& recipe,
                               const ProjectionConstants& constants = kProjectionConstants);

// Fits the constants to measured costs: least squares of relative errors. Needs two different d and two
// different n.
struct ProjectionTiming {
    OmegaRecipe recipe;  // must have the structure
    ProjectionCost cost;
};
ProjectionConstants fit_projection_constants(std::span<const ProjectionTiming> timings);

// Structured only if it is cheaper by this factor: for smaller gains the faster choice depends on the
// machine, and the dense product is more accurate for small d.
inline constexpr double kLeastGain = 1.5;

std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, const Exec& exec = {});

// The same for an existing Ω, for example from a file: structured only if omega has the same bits as
// sample(recipe), so that a modified Ω is used as it is.
std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, const Matrix<float>& omega,
                                                  const Exec& exec = {});

}  // namespace imka

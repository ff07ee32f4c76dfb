// Projection by sign flips and Walsh-Hadamard transforms, without computing the Ω of a sorf recipe.
#pragma once

#include "imka/base/exec.hpp"
#include "imka/features/projector.hpp"
#include "imka/omega/omega.hpp"
#include "imka/ops/fwht/sign_hadamard.hpp"

namespace imka {

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

private:
    SignHadamard matrix_;
};

}  // namespace imka

// Random Fourier features (Rahimi and Recht 2007): independent rows.
#include <cmath>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/omega/samplers.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka {
namespace {

// Entry j of row i has the stream index i d + j.
void fill_gaussian(const OmegaRecipe& recipe, std::uint64_t i, std::span<float> row) {
    const std::uint64_t first = i * static_cast<std::uint64_t>(recipe.d);
    if (recipe.truncation == 0.0) {
        ops::fill_normal(recipe.seed, Stream::omega_normal, first, row);
        return;
    }
    const auto bound = static_cast<float>(recipe.truncation);
    for (std::size_t j = 0; j < row.size(); ++j)
        row[j] = truncated_normal(recipe.seed, Stream::omega_normal, first + j, bound);
}

void cauchy_row(const OmegaRecipe& recipe, double scale, std::uint64_t i, std::span<float> row) {
    // Normals are discrete and can be 0. Smaller denominators (probability 5e-8) are raised to this value, so
    // that every entry is finite.
    constexpr double kLeast = 0x1p-24;
    std::vector<float> denominators(row.size());
    const std::uint64_t first = i * static_cast<std::uint64_t>(recipe.d);
    ops::fill_normal(recipe.seed, Stream::omega_normal, first, row);
    ops::fill_normal(recipe.seed, Stream::omega_mixing, first, denominators);
    for (std::size_t j = 0; j < row.size(); ++j) {
        const double b = denominators[j];
        const double safe = std::abs(b) < kLeast ? std::copysign(kLeast, b) : b;
        row[j] = static_cast<float>(scale * (double{row[j]} / safe));
    }
}

}  // namespace

void rff_rows(const OmegaRecipe& recipe, std::uint64_t first, MatrixView<float> out) {
    const auto law = law_of(recipe);
    for (std::size_t r = 0; r < out.rows(); ++r) {
        const auto row = out.row(r);
        if (law.law == Law::cauchy) {
            cauchy_row(recipe, law.omega_scale, first + r, row);
            continue;
        }
        fill_gaussian(recipe, first + r, row);
        const double scale = law.omega_scale * mixing_factor(recipe, law.law, first + r);
        for (float& v : row) v = static_cast<float>(scale * double{v});
    }
}

}  // namespace imka

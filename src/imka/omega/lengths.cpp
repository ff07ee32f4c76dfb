// Lengths of the rows of Ω, shared by the samplers.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "imka/base/random.hpp"
#include "imka/omega/samplers.hpp"

namespace imka {
namespace {

// Sum of `count` squared normals of a stream, in index order.
double chi_square(std::uint64_t seed, Stream stream, std::uint64_t first, std::uint64_t count) {
    std::array<float, 256> chunk{};
    double sum = 0.0;
    for (std::uint64_t done = 0; done < count; done += chunk.size()) {
        const auto part = std::span(chunk).first(std::min<std::uint64_t>(chunk.size(), count - done));
        fill_normal(seed, stream, first + done, part);
        for (const float g : part) sum += double{g} * double{g};
    }
    return sum;
}

}  // namespace

FeatureLaw law_of(const OmegaRecipe& recipe) {
    return kernel_row(recipe.kernel).feature_law(recipe.gamma, static_cast<std::size_t>(recipe.d));
}

double mixing_factor(const OmegaRecipe& recipe, Law law, std::uint64_t i) {
    if (law != Law::student3 && law != Law::student5) return 1.0;
    const std::uint64_t nu = law == Law::student3 ? 3 : 5;
    // Smaller sums have probability below 1e-24; the lower bound keeps ω finite.
    constexpr double kLeast = 1e-16;
    const double chi2 = std::max(kLeast, chi_square(recipe.seed, Stream::omega_mixing, i * 8, nu));
    return std::sqrt(static_cast<double>(nu) / chi2);
}

double relative_norm(const OmegaRecipe& recipe, std::uint64_t i, std::uint64_t n) {
    if (resolve_norms(recipe.sampler, recipe.norms) == Norms::sqrt) return 1.0;
    const double chi2 = chi_square(recipe.seed, Stream::omega_norm, i * n, n);
    return std::sqrt(chi2 / static_cast<double>(n));
}

void clamp_entries(const OmegaRecipe& recipe, double omega_scale, std::span<float> row) {
    if (recipe.truncation == 0.0 || recipe.convention == Convention::measured) return;
    const auto bound = static_cast<float>(recipe.truncation * omega_scale);
    for (float& v : row) v = std::clamp(v, -bound, bound);
}

}  // namespace imka

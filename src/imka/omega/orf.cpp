// Orthogonal random features (Yu et al. 2016): rows are orthogonal within blocks of d.
#include <algorithm>
#include <cmath>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/linalg/qr.hpp"
#include "imka/omega/samplers.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka {
namespace {

// The Gaussian matrix of block b: entry (i, j) has the stream index (b d + i) d + j.
void fill_block(const OmegaRecipe& recipe, std::uint64_t b, MatrixView<double> block) {
    const auto d = static_cast<std::uint64_t>(recipe.d);
    const bool cut = recipe.truncation > 0.0 && recipe.convention == Convention::measured;
    const auto bound = static_cast<float>(recipe.truncation);
    std::vector<float> row(block.cols());
    for (std::size_t i = 0; i < block.rows(); ++i) {
        const std::uint64_t first = (b * d + i) * d;
        if (!cut) ops::fill_normal(recipe.seed, Stream::omega_normal, first, row);
        for (std::size_t j = 0; j < row.size(); ++j) {
            block(i, j) =
                cut ? truncated_normal(recipe.seed, Stream::omega_normal, first + j, bound) : row[j];
        }
    }
}

}  // namespace

void orf_rows(const OmegaRecipe& recipe, std::uint64_t first, MatrixView<float> out) {
    const auto law = law_of(recipe);
    const auto d = static_cast<std::size_t>(recipe.d);
    const double sqrt_d = std::sqrt(static_cast<double>(d));
    const auto signs =
        recipe.convention == Convention::measured ? QrSigns::householder : QrSigns::positive_diagonal;
    Matrix<double> block(d, d);
    for (std::size_t r = 0; r < out.rows();) {
        const std::uint64_t b = (first + r) / d;
        fill_block(recipe, b, block.view());
        orthonormalize_rows(block.view(), signs);
        const std::size_t end = std::min<std::uint64_t>(out.rows(), (b + 1) * d - first);
        for (; r < end; ++r) {
            const std::uint64_t i = first + r;
            const double scale =
                law.omega_scale * mixing_factor(recipe, law.law, i) * relative_norm(recipe, i, d) * sqrt_d;
            const auto q = block.row(i - b * d);
            const auto row = out.row(r);
            for (std::size_t j = 0; j < d; ++j) row[j] = static_cast<float>(scale * q[j]);
            clamp_entries(recipe, law.omega_scale, row);
        }
    }
}

}  // namespace imka

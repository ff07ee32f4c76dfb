#include "imka/omega/samplers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/linalg/factor.hpp"
#include "imka/ops/fwht/fwht.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka {
namespace {

// Random Fourier features (Rahimi and Recht 2007): independent rows.

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

// Orthogonal random features (Yu et al. 2016): rows are orthogonal within blocks of d.

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

// Structured orthogonal random features (Yu et al. 2016): sign flips and Walsh-Hadamard transforms.

void multiply(std::span<double> row, std::span<const double> signs) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] *= signs[j];
}

// Row r of H D1 H D2 H D3 (standard) or D1 H D2 H D3 H (measured), without the scale n^(-3/2): integers below
// 2^53, so the arithmetic is exact.
void block_row(Convention convention, std::span<const double> signs, std::size_t r, std::span<double> row) {
    const std::size_t n = row.size();
    const auto d1 = signs.subspan(0, n);
    const auto d2 = signs.subspan(n, n);
    const auto d3 = signs.subspan(2 * n, n);
    for (std::size_t j = 0; j < n; ++j) row[j] = std::popcount(r & j) % 2 != 0 ? -1.0 : 1.0;
    if (convention == Convention::measured) {
        for (double& v : row) v *= d1[r];
        multiply(row, d2);
        fwht(row);
        multiply(row, d3);
        fwht(row);
        return;
    }
    multiply(row, d1);
    fwht(row);
    multiply(row, d2);
    fwht(row);
    multiply(row, d3);
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

std::size_t sorf_block_rows(const OmegaRecipe& recipe) {
    return std::bit_ceil(static_cast<std::size_t>(recipe.d));
}

// D_{k+1}(j) is -1 where the top bit of the word (3 b + k) n + j is set.
std::vector<double> sorf_signs(const OmegaRecipe& recipe, std::uint64_t b) {
    const std::size_t count = 3 * sorf_block_rows(recipe);
    std::vector<double> signs(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto word = random_bits(recipe.seed, Stream::omega_sign, b * count + i);
        signs[i] = (word >> 31U) != 0 ? -1.0 : 1.0;
    }
    return signs;
}

double sorf_scale(const OmegaRecipe& recipe, std::uint64_t i) {
    const auto law = law_of(recipe);
    return law.omega_scale * mixing_factor(recipe, law.law, i) *
           relative_norm(recipe, i, sorf_block_rows(recipe));
}

void sorf_rows(const OmegaRecipe& recipe, std::uint64_t first, MatrixView<float> out) {
    const auto law = law_of(recipe);
    const std::size_t n = sorf_block_rows(recipe);
    std::vector<double> values(n);
    for (std::size_t r = 0; r < out.rows();) {
        const std::uint64_t b = (first + r) / n;
        const auto signs = sorf_signs(recipe, b);
        const std::size_t end = std::min<std::uint64_t>(out.rows(), (b + 1) * n - first);
        for (; r < end; ++r) {
            const std::uint64_t i = first + r;
            block_row(recipe.convention, signs, i - b * n, values);
            // sqrt(n) n^(-3/2) = 1/n, a power of two.
            const double scale = sorf_scale(recipe, i) / static_cast<double>(n);
            const auto row = out.row(r);
            for (std::size_t j = 0; j < row.size(); ++j) row[j] = static_cast<float>(scale * values[j]);
            clamp_entries(recipe, law.omega_scale, row);
        }
    }
}

}  // namespace imka

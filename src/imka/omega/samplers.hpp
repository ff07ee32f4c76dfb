// The samplers called by sample_rows. A new sampler adds a line here, an enumerator, and its
// cases in omega.cpp and table.cpp. The index layouts are specified in docs/numerics.md and must not change.
#pragma once

#include <cstdint>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/omega/omega.hpp"

namespace imka {

// Limits checked by validate(): a QR of this size takes about a minute; a row of SORF needs n values of
// scratch.
constexpr std::int64_t kOrfMaxDimension = 8192;
constexpr std::int64_t kSorfMaxDimension = std::int64_t{1} << 24;

// Each writes rows first, first + 1, ... of a valid recipe.
void rff_rows(const OmegaRecipe& recipe, std::uint64_t first, MatrixView<float> out);
void orf_rows(const OmegaRecipe& recipe, std::uint64_t first, MatrixView<float> out);
void sorf_rows(const OmegaRecipe& recipe, std::uint64_t first, MatrixView<float> out);

// Components of a sorf Ω before clamp_entries. Blocks have n = sorf_block_rows rows.
std::size_t sorf_block_rows(const OmegaRecipe& recipe);
// The diagonals D1, D2, D3 of block b, concatenated: 3 n values, each 1 or -1.
std::vector<double> sorf_signs(const OmegaRecipe& recipe, std::uint64_t b);
// Row i of Ω divided by the same row of (H D1 H D2 H D3)/n or (D1 H D2 H D3 H)/n.
double sorf_scale(const OmegaRecipe& recipe, std::uint64_t i);

FeatureLaw law_of(const OmegaRecipe& recipe);

// sqrt(ν/χ²) of row i for Student laws, where χ² is a sum of ν squared normals; 1 for the Gaussian law.
double mixing_factor(const OmegaRecipe& recipe, Law law, std::uint64_t i);

// Length of the n-dimensional row i divided by sqrt(n), before omega_scale and mixing: 1 for sqrt norms, and
// sqrt(χ²_n / n) for chi norms, where χ² is a sum of n squared normals in double.
double relative_norm(const OmegaRecipe& recipe, std::uint64_t i, std::uint64_t n);

// Truncation of an orthogonal sampler in the standard convention: clamps the entries of the final Ω.
void clamp_entries(const OmegaRecipe& recipe, double omega_scale, std::span<float> row);

}  // namespace imka

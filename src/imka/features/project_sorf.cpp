#include "imka/features/project_sorf.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/omega/samplers.hpp"

namespace imka {
namespace {

void write(std::span<const double> signs, double factor, std::size_t at, std::vector<float>& out) {
    for (std::size_t j = 0; j < signs.size(); ++j) out[at + j] = static_cast<float>(factor * signs[j]);
}

// H D1 H D2 H D3 (standard: D3 comes first) or D1 H D2 H D3 H (measured: D1 is part of the scale). The
// transforms multiply lengths by n^(3/2); dividing by powers of two in between keeps values close to the
// result.
void add_block(const OmegaRecipe& recipe, std::size_t b, SignHadamard& matrix) {
    const std::size_t n = matrix.n;
    const auto signs = sorf_signs(recipe, b);
    const auto diagonal = [&](std::size_t k) { return std::span(signs).subspan((k - 1) * n, n); };
    const bool measured = recipe.convention == Convention::measured;
    const int levels = std::countr_zero(n);
    const double half = std::ldexp(1.0, -levels / 2);
    const double rest = std::ldexp(1.0, levels / 2 - levels);
    if (!measured) write(diagonal(3), 1.0, b * n, matrix.first);
    write(diagonal(measured ? 3 : 2), half, b * n, matrix.second);
    write(diagonal(measured ? 2 : 1), rest, b * n, matrix.third);
    const std::size_t end = std::min(matrix.m, (b + 1) * n);
    for (std::size_t i = b * n; i < end; ++i) {
        const double sign = measured ? diagonal(1)[i - b * n] : 1.0;
        matrix.scale[i] = static_cast<float>(sign * sorf_scale(recipe, i));
    }
}

}  // namespace

bool has_sorf_structure(const OmegaRecipe& recipe) {
    return recipe.sampler == Sampler::sorf &&
           (recipe.truncation == 0.0 || recipe.convention == Convention::measured);
}

SorfProjector::SorfProjector(const OmegaRecipe& recipe, const Exec& exec) {
    validate(recipe);
    if (!has_sorf_structure(recipe)) {
        fail(
            ErrorCode::bad_config,
            "projection by transforms needs the sampler sorf, without truncation in the standard convention");
    }
    const auto m = static_cast<std::size_t>(recipe.m);
    const std::size_t n = sorf_block_rows(recipe);
    const std::size_t size = padded_outputs(n, m);
    check_fits_memory(4.0, static_cast<double>(size), sizeof(float), "the diagonals of the transforms");
    matrix_ = {.d = static_cast<std::size_t>(recipe.d),
               .n = n,
               .m = m,
               .first = std::vector<float>(size, 1.0F),
               .second = std::vector<float>(size),
               .third = std::vector<float>(size),
               .scale = std::vector<float>(size)};
    parallel_for(exec, (m + n - 1) / n, [&](std::size_t b) { add_block(recipe, b, matrix_); });
}

void SorfProjector::project(MatrixView<const float> x, const ProductIds& /*ids*/, const Exec& exec,
                            MatrixView<float> u) const {
    constexpr std::size_t kRows = 256;  // per task
    parallel_for(exec, (x.rows() + kRows - 1) / kRows, [&](std::size_t t) {
        const std::size_t count = std::min(kRows, x.rows() - t * kRows);
        imka::project(matrix_, x.slice_rows(t * kRows, count), u.slice_rows(t * kRows, count));
    });
}

}  // namespace imka

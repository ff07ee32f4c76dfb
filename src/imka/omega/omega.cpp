#include "imka/omega/omega.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/omega/samplers.hpp"

namespace imka {
namespace {

// Narrower windows are far from Gaussian, wider ones have no effect (|normal| < 6.8).
constexpr double kLeastTruncation = 0.01;
constexpr double kMostTruncation = 1000.0;

void check_truncation(const OmegaRecipe& recipe) {
    if (recipe.truncation == 0.0) return;
    if (recipe.truncation < kLeastTruncation) {
        fail(ErrorCode::bad_config, fmt::format("truncation: {} is out of range; it must be 0 (off) or >= {}",
                                                recipe.truncation, kLeastTruncation));
    }
    const auto law = law_of(recipe).law;
    if (law != Law::gaussian) {
        fail(ErrorCode::bad_config,
             fmt::format(
                 "truncation: must be 0 for the {} kernel; cutting the tails of its heavy-tailed {} law "
                 "would change the kernel",
                 to_string(recipe.kernel), to_string(law)));
    }
}

void check_dimension(const OmegaRecipe& recipe) {
    if (recipe.sampler == Sampler::orf && recipe.d > kOrfMaxDimension) {
        fail(ErrorCode::bad_config,
             fmt::format("d: {} is out of range; orf factorises d x d matrices and supports d up to {}; use "
                         "sorf, whose cost is n log n per row",
                         recipe.d, kOrfMaxDimension));
    }
    if (recipe.sampler == Sampler::sorf && recipe.d > kSorfMaxDimension) {
        fail(ErrorCode::bad_config,
             fmt::format("d: {} is out of range; sorf supports d up to {}", recipe.d, kSorfMaxDimension));
    }
}

void check_rows(const OmegaRecipe& recipe, std::int64_t first, MatrixView<float> out) {
    const auto d = static_cast<std::size_t>(recipe.d);
    const auto m = static_cast<std::size_t>(recipe.m);
    if (out.cols() != d) {
        fail(ErrorCode::bad_usage,
             fmt::format("sample_rows: the output has {} columns but the recipe has d = {}", out.cols(), d));
    }
    if (first < 0 || static_cast<std::size_t>(first) > m ||
        out.rows() > m - static_cast<std::size_t>(first)) {
        fail(ErrorCode::bad_usage, fmt::format("sample_rows: {} rows from row {} exceed the recipe's m = {}",
                                               out.rows(), first, m));
    }
}

std::size_t rows_of_a_block(const OmegaRecipe& recipe) {
    const auto d = static_cast<std::size_t>(recipe.d);
    switch (recipe.sampler) {
        case Sampler::rff:
            return 1;
        case Sampler::orf:
            return d;
        case Sampler::sorf:
            return std::bit_ceil(d);
    }
    return 1;
}

}  // namespace

Norms resolve_norms(Sampler sampler, Norms norms) {
    if (sampler == Sampler::rff) return Norms::auto_;
    if (norms != Norms::auto_) return norms;
    return sampler == Sampler::orf ? Norms::chi : Norms::sqrt;
}

Fields fields(OmegaRecipe& recipe) {
    return {
        field("kernel", recipe.kernel, {.help = "kernel to approximate"}),
        field("gamma", recipe.gamma,
              {.help =
                   "inverse squared width of the kernel (laplace: inverse width); ignored by kernels without "
                   "a width",
               .min = 1e-20,
               .max = 1e20}),
        field("sampler", recipe.sampler, {.help = "how the rows of Ω are drawn"}),
        field("norms", recipe.norms,
              {.help = "lengths of orthogonal rows; auto: chi for orf, sqrt for sorf; ignored by rff"}),
        field("truncation", recipe.truncation,
              {.help = "bound on the entries of Ω; 0: no truncation",
               .unit = "standard deviations",
               .min = 0.0,
               .max = kMostTruncation}),
        field("convention", recipe.convention, {.help = "standard, or measured: as in the published runs"}),
        field("d", recipe.d, {.help = "dimension of the inputs, columns of Ω", .min = 1.0}),
        field("m", recipe.m, {.help = "number of directions, rows of Ω", .min = 1.0}),
        field("seed", recipe.seed, {.help = "seed of Ω"}),
    };
}

void validate(const OmegaRecipe& recipe) {
    auto copy = recipe;
    check_ranges(fields(copy));
    const auto known = combination(recipe.kernel, recipe.sampler, recipe.norms);
    if (known.bias == Bias::refused) {
        fail(ErrorCode::bad_config, fmt::format("kernel {} with sampler {}: {}", to_string(recipe.kernel),
                                                to_string(recipe.sampler), known.reason));
    }
    check_truncation(recipe);
    check_dimension(recipe);
}

Matrix<float> sample(const OmegaRecipe& recipe, const Exec& exec) {
    validate(recipe);
    check_fits_memory(static_cast<double>(recipe.m), static_cast<double>(recipe.d), sizeof(float), "Ω");
    Matrix<float> omega(static_cast<std::size_t>(recipe.m), static_cast<std::size_t>(recipe.d));
    // Each task covers whole blocks, so that no block is computed twice.
    constexpr std::size_t kLeastRows = 64;
    const std::size_t rows = rows_of_a_block(recipe);
    const std::size_t piece = (kLeastRows + rows - 1) / rows * rows;
    parallel_for(exec, (omega.rows() + piece - 1) / piece, [&](std::size_t i) {
        const std::size_t first = i * piece;
        const std::size_t count = std::min(piece, omega.rows() - first);
        sample_rows(recipe, static_cast<std::int64_t>(first), omega.view().slice_rows(first, count));
    });
    return omega;
}

void sample_rows(const OmegaRecipe& recipe, std::int64_t first, MatrixView<float> out) {
    validate(recipe);
    check_rows(recipe, first, out);
    const auto row = static_cast<std::uint64_t>(first);
    switch (recipe.sampler) {
        case Sampler::rff:
            return rff_rows(recipe, row, out);
        case Sampler::orf:
            return orf_rows(recipe, row, out);
        case Sampler::sorf:
            return sorf_rows(recipe, row, out);
    }
    assert(false);
}

}  // namespace imka

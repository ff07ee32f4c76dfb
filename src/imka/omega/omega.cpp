#include "imka/omega/omega.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <span>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
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
    if (recipe.sampler == Sampler::rff) return 1;
    return recipe.sampler == Sampler::orf ? static_cast<std::size_t>(recipe.d) : sorf_block_rows(recipe);
}

// Lengths of the rows of Ω, shared by the samplers.

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

FeatureLaw law_of(const OmegaRecipe& recipe) {
    return kernel_info(recipe.kernel).feature_law(recipe.gamma, static_cast<std::size_t>(recipe.d));
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

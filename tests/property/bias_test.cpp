// Measured biases of the inexact combinations, compared with the exact expectation where one is known. Prints
// the tables of docs/numerics.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "property/predictions.hpp"

namespace {

using imka::Bias;
using imka::Convention;
using imka::Kernel;
using imka::Norms;
using imka::OmegaRecipe;
using imka::Sampler;

std::optional<double> prediction(const OmegaRecipe& r, const PointPair& pair) {
    if (r.convention == Convention::measured) return std::nullopt;
    const double exact = imka::kernel_info(r.kernel).value(pair.x, pair.y, r.gamma);
    const bool cut = r.truncation > 0.0;
    // Rows of length sqrt(d) < 3 are never truncated.
    const bool short_rows = r.norms == Norms::sqrt && std::sqrt(static_cast<double>(r.d)) < r.truncation;
    switch (r.sampler) {
        case Sampler::rff:
            return cut ? truncated_expectation(r, pair, false) : std::optional(exact);
        case Sampler::orf:
            if (r.norms == Norms::chi)
                return cut ? truncated_expectation(r, pair, true) : std::optional(exact);
            if (cut && !short_rows) return std::nullopt;
            return orf_expectation(r, pair);
        case Sampler::sorf:
            if (r.d <= 4) return sorf_expectation(r, pair);
            if (r.d <= 8 && r.kernel == Kernel::rbf && !cut) return sorf_rbf_expectation(r, pair);
            return std::nullopt;
    }
    return std::nullopt;
}

struct Measured {
    double relative = 0.0;
    double error = 0.0;  // standard error
    std::optional<double> predicted = std::nullopt;
};

std::vector<Measured> measure(const OmegaRecipe& r, const std::vector<PointPair>& pairs, std::size_t n) {
    const auto d = static_cast<std::size_t>(r.d);
    const std::size_t rows = r.sampler == Sampler::sorf ? std::bit_ceil(d) : d;
    const auto estimates = draw_estimates(r, pairs, {.rows = rows, .per_seed = n / 4, .seeds = 4});
    std::vector<Measured> results;
    for (std::size_t p = 0; p < pairs.size(); ++p) {
        const double exact = imka::kernel_info(r.kernel).value(pairs[p].x, pairs[p].y, r.gamma);
        const auto m = moments(estimates[p]);
        Measured result{.relative = m.mean / exact - 1.0, .error = m.mean_error / exact};
        if (const auto value = prediction(r, pairs[p])) result.predicted = *value / exact - 1.0;
        results.push_back(result);
    }
    return results;
}

// 1e-6: rounding of Ω to float.
void check(const OmegaRecipe& r, const std::vector<Measured>& results) {
    for (const auto& m : results) {
        if (!m.predicted) continue;
        EXPECT_LE(std::abs(m.relative - *m.predicted), 5.0 * m.error + 1e-6)
            << imka::to_string(r.kernel) << " " << imka::to_string(r.sampler) << " "
            << imka::to_string(r.norms) << " truncation " << r.truncation << " d " << r.d;
    }
}

void print(const OmegaRecipe& r, const std::vector<Measured>& results) {
    fmt::print("| {} | {} | {} | {} | {} |", imka::to_string(r.kernel), imka::to_string(r.sampler),
               r.sampler == Sampler::rff ? "-" : imka::to_string(r.norms), r.truncation, r.d);
    for (const auto& m : results) {
        const auto predicted = m.predicted ? fmt::format("{:+.2f}", 100.0 * *m.predicted) : std::string("-");
        fmt::print(" {:+.2f} ± {:.2f} | {} |", 100.0 * m.relative, 100.0 * m.error, predicted);
    }
    fmt::print("\n");
}

void print_head() {
    fmt::print(
        "| kernel | sampler | norms | truncation | d | A: bias, % | A: expected | B: bias, % | B: expected "
        "|\n");
    fmt::print("|---|---|---|---|---|---|---|---|---|\n");
}

bool visible(const std::vector<Measured>& results) {
    return std::any_of(results.begin(), results.end(),
                       [](const Measured& m) { return std::abs(m.relative) > 5.0 * m.error + 1e-6; });
}

class BiasOf : public testing::TestWithParam<Kernel> {};
INSTANTIATE_TEST_SUITE_P(Kernels, BiasOf,
                         testing::Values(Kernel::rbf, Kernel::laplace, Kernel::matern32, Kernel::matern52,
                                         Kernel::arccos0, Kernel::arccos1, Kernel::arccos2, Kernel::softmax),
                         [](const auto& p) { return std::string(imka::to_string(p.param)); });

// d = 3, gamma = 0.3, two pairs with gamma |x-y|² = 1 and 1/2; n = 200,000 Ω of one block; 5 standard errors.
// The measured bias must be significant exactly where combination() says biased.
TEST_P(BiasOf, IsAsPredictedAndAsTheTableOfCombinationsSays) {
    const std::vector<PointPair> pairs = {pair_at_one_over_e(3, 0, 0.3), pair_at_one_over_e(3, 4, 0.6)};
    print_head();
    for (const auto sampler : {Sampler::rff, Sampler::orf, Sampler::sorf}) {
        for (const auto norms : {Norms::chi, Norms::sqrt}) {
            if (sampler == Sampler::rff && norms == Norms::sqrt) continue;
            const auto known = imka::combination(GetParam(), sampler, norms);
            if (known.bias == Bias::refused) continue;
            OmegaRecipe r{.kernel = GetParam(), .gamma = 0.3, .sampler = sampler, .norms = norms, .d = 3};
            const auto plain = measure(r, pairs, 200000);
            check(r, plain);
            print(r, plain);
            EXPECT_EQ(visible(plain), known.bias == Bias::biased) << known.reason;
            if (imka::kernel_info(GetParam()).feature_law(0.3, 3).law != imka::Law::gaussian) continue;
            r.truncation = 3.0;
            const auto cut = measure(r, pairs, 200000);
            check(r, cut);
            print(r, cut);
        }
    }
}

// The bias of rbf at k = 1/e decreases with d; n chosen for about 0.1 %.
TEST(BiasOverD, OfRbfFallsWithTheDimension) {
    print_head();
    const std::pair<std::int64_t, std::size_t> sizes[] = {{8, 60000}, {12, 40000}, {16, 40000}, {64, 10000}};
    for (const auto& [sampler, norms] :
         {std::pair{Sampler::orf, Norms::sqrt}, std::pair{Sampler::sorf, Norms::sqrt},
          std::pair{Sampler::sorf, Norms::chi}}) {
        double last = -1.0;
        for (const auto& [d, n] : sizes) {
            if (sampler == Sampler::orf && d == 64) continue;
            const auto size = static_cast<std::size_t>(d);
            const OmegaRecipe r{.gamma = 0.3, .sampler = sampler, .norms = norms, .d = d};
            const auto results =
                measure(r, {pair_at_one_over_e(size, 0, 0.3), pair_at_one_over_e(size, 4, 0.3)}, n);
            check(r, results);
            print(r, results);
            if (norms == Norms::sqrt && d != 12) {
                EXPECT_GT(results[0].relative, last);
                last = results[0].relative;
            }
        }
    }
}

// Householder signs bias arccos0, but not rbf, which is even in ω. n = 100,000 blocks, d = 3.
TEST(BiasOfTheMeasuredConvention, ShowsInArccos0AndNotInRbf) {
    const std::vector<PointPair> pairs = {pair_at_one_over_e(3, 0, 0.3), pair_at_one_over_e(3, 4, 0.6)};
    OmegaRecipe r{.kernel = Kernel::arccos0,
                  .gamma = 0.3,
                  .sampler = Sampler::orf,
                  .norms = Norms::chi,
                  .convention = Convention::measured,
                  .d = 3};
    const auto arccos = measure(r, pairs, 100000);
    print(r, arccos);
    EXPECT_TRUE(visible(arccos));
    r.kernel = Kernel::rbf;
    const auto rbf = measure(r, pairs, 100000);
    print(r, rbf);
    EXPECT_FALSE(visible(rbf));
}

}  // namespace

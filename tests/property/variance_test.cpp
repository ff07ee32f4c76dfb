// Variance of the estimator: smaller for orthogonal rows, and proportional to 1/m.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "property/estimator.hpp"

namespace {

using imka::Sampler;

Moments measure(Sampler sampler, std::size_t d, std::size_t m, std::size_t n) {
    const imka::OmegaRecipe recipe{.gamma = 0.3, .sampler = sampler, .d = static_cast<std::int64_t>(d)};
    return moments(draw_estimates(recipe, {pair_at_one_over_e(d, 0, 0.3)}, {.rows = m, .per_seed = n})[0]);
}

// d = m = 8, k = 1/e, n = 40,000 draws each; the difference must exceed 5 of its standard errors.
TEST(Variance, IsSmallerForOrthogonalRowsAndRbf) {
    const auto rff = measure(Sampler::rff, 8, 8, 40000);
    const auto orf = measure(Sampler::orf, 8, 8, 40000);
    const double error = std::hypot(rff.variance_error, orf.variance_error);
    fmt::print("  variance ratio orf/rff at d = m = 8, k = 1/e: {:.3f}\n", orf.variance / rff.variance);
    EXPECT_GT(rff.variance - orf.variance, 5.0 * error);
}

// For independent rows the variance is known: ((1 + k⁴)/2 - k²)/m, k = 1/e. n = 40,000.
TEST(Variance, OfRffAndRbfFollowsTheFormula) {
    const double k = std::exp(-1.0);
    const auto rff = measure(Sampler::rff, 8, 8, 40000);
    EXPECT_LE(std::abs(rff.variance - ((1.0 + std::pow(k, 4)) / 2.0 - k * k) / 8.0),
              5.0 * rff.variance_error);
}

// m = 4, 8, ..., 128 at d = 4, n = 8,000 draws each: the slope of log variance over log m is -1 within 5
// sigma.
TEST(Variance, FallsAsOneOverM) {
    for (const auto sampler : {Sampler::rff, Sampler::orf, Sampler::sorf}) {
        double sum_w = 0.0;
        double sum_wx = 0.0;
        double sum_wy = 0.0;
        double sum_wxx = 0.0;
        double sum_wxy = 0.0;
        for (std::size_t m = 4; m <= 128; m *= 2) {
            const auto v = measure(sampler, 4, m, 8000);
            const double x = std::log(static_cast<double>(m));
            const double y = std::log(v.variance);
            const double w = std::pow(v.variance / v.variance_error, 2);  // 1 / variance of y
            sum_w += w;
            sum_wx += w * x;
            sum_wy += w * y;
            sum_wxx += w * x * x;
            sum_wxy += w * x * y;
        }
        const double determinant = sum_w * sum_wxx - sum_wx * sum_wx;
        const double slope = (sum_w * sum_wxy - sum_wx * sum_wy) / determinant;
        const double error = std::sqrt(sum_w / determinant);
        fmt::print("  {:<5} slope {:.4f} ± {:.4f}\n", imka::to_string(sampler), slope, error);
        EXPECT_LE(std::abs(slope + 1.0), 5.0 * error) << imka::to_string(sampler);
    }
}

}  // namespace

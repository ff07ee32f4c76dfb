// Random features with an exact law are unbiased: the mean over many Ω is k(x, y).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "property/estimator.hpp"

namespace {

using imka::Kernel;
using imka::Sampler;

struct Case {
    Kernel kernel;
    Sampler sampler;
    std::int64_t d;
};

std::vector<Case> cases() {
    std::vector<Case> list;
    for (const auto& row : imka::kernel_registry()) {
        for (const std::int64_t d : {1, 5}) {
            list.push_back({row.kernel, Sampler::rff, d});
            if (row.kernel != Kernel::laplace) list.push_back({row.kernel, Sampler::orf, d});
        }
    }
    return list;
}

class Unbiased : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Combinations, Unbiased, testing::ValuesIn(cases()), [](const auto& p) {
    return fmt::format("{}_{}_d{}", imka::to_string(p.param.kernel), imka::to_string(p.param.sampler),
                       p.param.d);
});

// n = 320,000 draws of m = d rows, 40,000 from each of 8 seeds; 5 standard errors. Prints the smallest
// relative bias that would be detected with probability 0.999, (5 + 3.09) standard errors over k.
TEST_P(Unbiased, MeanOverManyOmegasIsTheKernel) {
    const auto [kernel, sampler, size] = GetParam();
    const auto d = static_cast<std::size_t>(size);
    const imka::OmegaRecipe recipe{.kernel = kernel, .gamma = 0.3, .sampler = sampler, .d = size};
    // Exponential features of large points have too much variance for any n: softmax uses small points.
    const double scale = kernel == Kernel::softmax ? 0.4 : 1.0;
    std::vector<PointPair> pairs;
    for (const std::uint64_t i : {0U, 1U, 2U})
        pairs.push_back(scaled(pair_at_one_over_e(d, i, 0.3 * (1.0 + static_cast<double>(i))), scale));
    const auto estimates = draw_estimates(recipe, pairs, {.rows = d, .per_seed = 40000, .seeds = 8});
    for (std::size_t p = 0; p < pairs.size(); ++p) {
        const double exact = imka::kernel_info(kernel).value(pairs[p].x, pairs[p].y, recipe.gamma);
        const auto m = moments(estimates[p]);
        EXPECT_LE(std::abs(m.mean - exact), 5.0 * m.mean_error + 1e-6 * exact)
            << "pair " << p << ": mean " << m.mean << ", kernel " << exact;
        const double power = (5.0 + 3.09) * m.mean_error / std::abs(exact);
        const auto text =
            fmt::format("n {:.0f} k {:.4f} mean {:.4f} power {:.2f} %", m.n, exact, m.mean, 100.0 * power);
        RecordProperty(fmt::format("pair{}", p), text);
        fmt::print("  {:<9}{:<5} d {} pair {}: {}\n", imka::to_string(kernel), imka::to_string(sampler), d, p,
                   text);
    }
}

}  // namespace

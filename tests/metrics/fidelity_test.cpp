// Scores of emulated and measured results, computed by hand.
#include "imka/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace imka {
namespace {

FidelityCell cell(const std::string& dataset, double ratio, double accuracy) {
    return {.dataset = dataset,
            .kernel = "rbf",
            .sampler = "orf",
            .error = {.mean = 0.1 * std::exp(ratio), .std = 0.0, .n = 2},
            .error_measured = {.mean = 0.1, .std = 0.01, .n = 4},
            .accuracy = Summary{.mean = accuracy, .n = 2},
            .accuracy_measured = Summary{.mean = 0.9, .n = 4}};
}

TEST(FidelityScore, MatchesTheDefinition) {
    const std::vector<FidelityCell> cells = {cell("a", 0.3, 0.9), cell("a", -0.1, 0.894),
                                             cell("b", 0.0, 0.9)};
    const auto a = fidelity_score(cells, "a", "rbf");
    EXPECT_EQ(a.cells, 2U);
    EXPECT_NEAR(a.rms, std::sqrt((0.09 + 0.01) / 2.0), 1e-12);
    EXPECT_NEAR(a.bias, 0.1, 1e-12);
    EXPECT_NEAR(a.noise, 0.05, 1e-12) << "0.01 / sqrt(4) of 0.1";
    EXPECT_EQ(a.accuracy_agrees, 1U) << "0.6 points without spread do not agree";
    EXPECT_EQ(fidelity_score(cells, "all", "all").cells, 3U);
    EXPECT_EQ(fidelity_score(cells, "all", "arccos0").cells, 0U);
    EXPECT_EQ(fidelity_score(cells, "all", "arccos0").rms, 0.0);
}

}  // namespace
}  // namespace imka

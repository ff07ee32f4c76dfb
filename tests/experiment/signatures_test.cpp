// Signatures of candidates against means by hand.
#include "imka/experiment/signatures.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace imka {
namespace {

// ln(emulated / measured) is `ratio`, with a standard error of 0.05.
FidelityCell cell_of(const std::string& dataset, double log_ratio, double ratio) {
    return {.dataset = dataset,
            .kernel = "rbf",
            .sampler = "orf",
            .log_ratio = log_ratio,
            .error = {.mean = 0.1 * std::exp(ratio), .std = 0.0, .n = 2},
            .error_measured = {.mean = 0.1, .std = 0.01, .n = 4}};
}

TEST(Signatures, AreMeansOverTheSizesOfOneDataSetKernelAndSampler) {
    const std::vector<FidelityCell> chip = {cell_of("a", 3, 9.0), cell_of("a", 4, 0.3), cell_of("b", 5, 0.2),
                                            cell_of("a", 5, 0.1)};
    const std::vector<FidelityCell> candidate = {cell_of("a", 3, 9.0), cell_of("a", 4, 0.4),
                                                 cell_of("b", 5, 0.2), cell_of("a", 5, 0.4)};
    const auto found = signatures({chip, candidate}, 4.0);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].dataset, "a");
    EXPECT_NEAR(found[0].missing, -0.2, 1e-12);
    EXPECT_NEAR(found[0].missing_error, 0.05 / std::sqrt(2.0), 1e-12);
    ASSERT_EQ(found[0].changes.size(), 1U);
    EXPECT_NEAR(found[0].changes[0], 0.2, 1e-12);
    EXPECT_EQ(found[1].dataset, "b");
    EXPECT_NEAR(found[1].changes[0], 0.0, 1e-12);
}

}  // namespace
}  // namespace imka

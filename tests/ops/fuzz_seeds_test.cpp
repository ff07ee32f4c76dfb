// Replays the seeds of the differential fuzzer: the ops meet the bounds in their headers on every instruction
// set.
#include <gtest/gtest.h>

#include "../../fuzz/feed_ops.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(OpsFuzzSeeds, AgreeWithTheReferenceOnEveryInstructionSet) {
    feed_seeds("ops", fuzz::feed_ops);
}

TEST(OpsFuzzSeeds, TheComparisonCanFail) {
    EXPECT_TRUE(fuzz::is_scaled(0.25F, 0.5F, fuzz::near_turn(0.5)));
    EXPECT_FALSE(fuzz::is_scaled(0.2500002F, 0.5F, fuzz::near_turn(0.5)));
    EXPECT_TRUE(fuzz::is_scaled(1.0F, 1.0F, fuzz::near_exp(0.0F)));
    EXPECT_FALSE(fuzz::is_scaled(1.0000004F, 1.0F, fuzz::near_exp(0.0F)));
    EXPECT_FALSE(fuzz::is_scaled(0.0F, 1.0F, fuzz::near_exp(-100.0F))) << "subnormal, not zero";
    EXPECT_FALSE(fuzz::is_scaled(std::nanf(""), 1.0F, fuzz::near_exp(1.0F)));
    EXPECT_TRUE(fuzz::is_scaled(std::nanf(""), 1.0F, fuzz::near_turn(std::nan(""))));
}

}  // namespace
}  // namespace imka

// The functions of features on GPUs, checked on the processor.
#include "imka/ops/epilogue/scaled_cos_sin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace imka::ops {
namespace {

TEST(ScaledCosSin, ErrorsAreWithinTheirBound) {
    constexpr double kBound = 1.5e-7;
    const auto last = std::bit_cast<std::uint32_t>(kLargestAngle);
    double worst = 0.0;
    // All sizes of angles; every factor of 2 has 2^23 floats.
    for (auto bits = std::bit_cast<std::uint32_t>(1e-3F); bits <= last; bits += 61) {
        const auto x = std::bit_cast<float>(bits);
        const auto got = scaled_cos_sin_of_small(x, 1.0F);
        worst = std::max(
            {worst, std::abs(got.cos - std::cos(double{x})), std::abs(got.sin - std::sin(double{x}))});
        const auto other = scaled_cos_sin_of_small(-x, 1.0F);
        ASSERT_EQ(other.cos, got.cos) << x;
        ASSERT_EQ(other.sin, -got.sin) << x;
    }
    EXPECT_LE(worst, kBound);
    EXPECT_GE(worst, 1e-7) << "the bound is too generous";
}

TEST(ScaledCosSin, ScalesAndSigns) {
    for (const float x : {0.0F, 1.0F, 2.0F, 4.0F, -5.0F, 100.0F}) {
        const auto one = scaled_cos_sin_of_small(x, 1.0F);
        const auto scaled = scaled_cos_sin_of_small(x, -0.03F);
        EXPECT_EQ(scaled.cos, -0.03F * one.cos) << x;
        EXPECT_EQ(scaled.sin, -0.03F * one.sin) << x;
    }
    EXPECT_EQ(scaled_cos_sin_of_small(0.0F, 2.0F).cos, 2.0F);
    for (const float x : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        EXPECT_TRUE(std::isnan(scaled_cos_sin_of_small(x, 1.0F).cos));
        EXPECT_TRUE(std::isnan(scaled_cos_sin_of_small(x, 1.0F).sin));
    }
}

}  // namespace
}  // namespace imka::ops

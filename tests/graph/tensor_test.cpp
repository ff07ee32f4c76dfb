// Element types, conversions and sizes.
#include "imka/graph/tensor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/error.hpp"

namespace imka::graph {
namespace {

TEST(GraphTensor, EveryHalfSurvivesFloat) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const Half h{static_cast<std::uint16_t>(bits)};
        const float x = to_float(h);
        if (std::isnan(x)) {
            EXPECT_TRUE(std::isnan(to_float(to_half(x))));
        } else {
            EXPECT_EQ(to_half(x).bits, h.bits) << x;
        }
    }
}

TEST(GraphTensor, HalfRoundsToNearestEven) {
    EXPECT_EQ(to_half(1.0F + 0x1p-11F).bits, 0x3C00);      // a tie: down to even
    EXPECT_EQ(to_half(1.0F + 3 * 0x1p-11F).bits, 0x3C02);  // a tie: up to even
    EXPECT_EQ(to_half(1.0F + 0x1.002p-11F).bits, 0x3C01);  // above a tie
    EXPECT_EQ(to_half(65504.0F).bits, 0x7BFF);             // the largest
    EXPECT_EQ(to_half(65519.0F).bits, 0x7BFF);
    EXPECT_EQ(to_half(65520.0F).bits, 0x7C00);   // infinity
    EXPECT_EQ(to_half(-0x1p-24F).bits, 0x8001);  // the smallest
    EXPECT_EQ(to_half(0x1p-26F).bits, 0);
    EXPECT_EQ(to_float(to_bfloat16(1.0F + 0x1p-8F)), 1.0F);
    EXPECT_EQ(to_float(to_bfloat16(1.0F + 3 * 0x1p-8F)), 1.0F + 0x1p-6F);
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(GraphTensor, NumbersOutOfRangeBecomeLimits) {
    EXPECT_EQ(converted<std::uint64_t>(1e30), std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(converted<std::int64_t>(-1e30), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(converted<std::int32_t>(std::numeric_limits<float>::quiet_NaN()), 0);
    EXPECT_EQ(converted<std::int32_t>(-3.9F), -3);
    EXPECT_EQ(converted<std::uint8_t>(std::int64_t{257}), 1);
    EXPECT_EQ(converted<bool>(0.5F), true);
}

TEST(GraphTensor, AbsurdShapesAreRefused) {
    EXPECT_EQ(element_count({}), 1U);
    EXPECT_EQ(element_count({3, 0, 5}), 0U);
    EXPECT_NE(error_of([] { element_count({-1}); }).find("bad_data: negative size -1"), std::string::npos);
    EXPECT_NE(error_of([] { element_count({1LL << 40, 1LL << 40}); }).find("too large"), std::string::npos);
}

}  // namespace
}  // namespace imka::graph

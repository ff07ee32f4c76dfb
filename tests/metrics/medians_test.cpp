#include "imka/metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "imka/base/random.hpp"

namespace {

using imka::median;
using imka::median_interval;

TEST(Median, IsTheMiddleInAnyOrder) {
    EXPECT_EQ(median(std::vector{3.0}), 3.0);
    EXPECT_EQ(median(std::vector{9.0, 1.0, 2.0}), 2.0);
    EXPECT_EQ(median(std::vector{8.0, 1.0, 2.0, 4.0}), 3.0);
}

// Ranks and confidences of the sign test, from the table in Conover, Practical Nonparametric Statistics.
TEST(MedianInterval, UsesTheOrderStatisticsOfTheSignTest) {
    const auto ranks = [](int n) {
        std::vector<double> v;
        for (int i = n; i >= 1; --i) v.push_back(i);
        return median_interval(v);
    };
    EXPECT_EQ(ranks(6).low, 1.0);
    EXPECT_EQ(ranks(6).high, 6.0);
    EXPECT_NEAR(ranks(6).confidence, 0.96875, 1e-12);
    EXPECT_EQ(ranks(9).low, 2.0);
    EXPECT_EQ(ranks(9).high, 8.0);
    EXPECT_NEAR(ranks(9).confidence, 0.9609375, 1e-12);
    EXPECT_EQ(ranks(15).low, 4.0);
    EXPECT_EQ(ranks(15).high, 12.0);
    EXPECT_NEAR(ranks(15).confidence, 0.9648, 1e-4);
}

TEST(MedianInterval, OfFewValuesReportsItsConfidence) {
    const auto three = median_interval(std::vector{2.0, 1.0, 4.0});
    EXPECT_EQ(three.low, 1.0);
    EXPECT_EQ(three.median, 2.0);
    EXPECT_EQ(three.high, 4.0);
    EXPECT_NEAR(three.confidence, 0.75, 1e-12);
    EXPECT_EQ(median_interval(std::vector{7.0}).confidence, 0.0);
}

// n = 4000 samples of 11 skewed values: the interval [2nd.. 10th] must cover with probability 0.9883.
TEST(MedianInterval, CoversTheTrueMedianWithItsConfidence) {
    constexpr int kSamples = 4000;
    int covered = 0;
    double confidence = 0.0;
    for (int s = 0; s < kSamples; ++s) {
        std::vector<double> v(11);
        for (std::size_t i = 0; i < v.size(); ++i) {
            const double u = imka::uniform(1, imka::Stream::test, static_cast<std::uint64_t>(s) * 11 + i);
            v[i] = u * u * u;
        }
        const auto interval = median_interval(v);
        confidence = interval.confidence;
        if (interval.low <= 0.125 && 0.125 <= interval.high) ++covered;
    }
    const double error = std::sqrt(confidence * (1.0 - confidence) / kSamples);
    EXPECT_NEAR(static_cast<double>(covered) / kSamples, confidence, 5.0 * error);
}

}  // namespace

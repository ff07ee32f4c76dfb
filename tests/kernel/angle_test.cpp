// The angle between two points is accurate near 0 and π.
#include "imka/kernel/kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "imka/base/random.hpp"

namespace {

using Point = std::vector<float>;

// Lagrange's identity: |x|²|y|² sin²θ = sum over i < j of (x_i y_j - x_j y_i)². Products of floats are exact
// in long double, so nothing cancels.
long double exact_supplement(const Point& x, const Point& y) {
    long double sine = 0.0L;
    long double cosine = 0.0L;
    for (std::size_t i = 0; i < x.size(); ++i) {
        cosine += static_cast<long double>(x[i]) * y[i];
        for (std::size_t j = 0; j < i; ++j) {
            const long double c =
                static_cast<long double>(x[i]) * y[j] - static_cast<long double>(x[j]) * y[i];
            sine += c * c;
        }
    }
    return std::atan2(std::sqrt(sine), -cosine);
}

void expect_accurate(const Point& x, const Point& y) {
    const double bound = (static_cast<double>(x.size()) + 8.0) * 0x1p-52;
    const auto got = static_cast<long double>(imka::angle_between(x, y).supplement);
    EXPECT_LE(std::abs(got - exact_supplement(x, y)), static_cast<long double>(bound));
}

TEST(Angle, IsAccurateForNearlyParallelAndAntiparallelPoints) {
    for (const std::size_t d : {2U, 3U, 10U, 64U}) {
        Point x(d);
        Point noise(d);
        imka::fill_normal(d, imka::Stream::test, 0, x);
        imka::fill_normal(d, imka::Stream::test, 1000, noise);
        for (const double step : {1.0, 1e-2, 1e-4, 1e-5, 1e-6, 1e-7}) {
            for (const double factor : {1.0, -1.0, 0.37, -1e3}) {
                Point y(d);
                for (std::size_t i = 0; i < d; ++i)
                    y[i] = static_cast<float>(factor * (double{x[i]} + step * double{noise[i]}));
                expect_accurate(x, y);
            }
        }
    }
}

// The textbook formula acos(xᵀy / |x||y|) fails the same test by seven digits.
TEST(Angle, TheTextbookFormWouldNotPass) {
    const Point x = {1.0F, 1.0F, 1.0F};
    const Point y = {1.0F, 1.0F, 1.000001F};
    double xy = 0.0;
    double yy = 0.0;
    for (std::size_t i = 0; i < 3; ++i) {
        xy += double{x[i]} * double{y[i]};
        yy += double{y[i]} * double{y[i]};
    }
    const double naive = std::numbers::pi - std::acos(std::min(1.0, xy / std::sqrt(3.0 * yy)));
    EXPECT_GT(std::abs(static_cast<long double>(naive) - exact_supplement(x, y)), 1e-12L);
    expect_accurate(x, y);
}

TEST(Angle, ExtremeLengthsDoNotOverflow) {
    const Point big = {3e38F, 1e38F};
    const Point small = {1e-44F, -1e-40F};
    expect_accurate(big, small);
    expect_accurate(big, big);
    expect_accurate(small, small);
}

TEST(Angle, OfAPointWithItselfIsExact) {
    const Point x = {0.1F, -7.0F, 3.3F};
    EXPECT_EQ(imka::angle_between(x, x).supplement, std::numbers::pi);
}

}  // namespace

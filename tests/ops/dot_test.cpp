// Dot products against a plain loop in long double, on every instruction set.
#include "imka/ops/dot/dot.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "imka/base/random.hpp"
#include "support/targets.hpp"

namespace imka::ops {
namespace {

TEST(Dot, IsTheNaiveSumWithinItsBound) {
    std::vector<float> z(2001);
    std::vector<double> w(2001);
    fill_normal(1, Stream::test, 0, z);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = normal(2, Stream::test, i) * 1e3;
    for_each_instruction_set([&] {
        for (const std::size_t size : {0U, 1U, 2U, 7U, 8U, 15U, 16U, 17U, 33U, 2000U}) {
            long double sum = 0.0L;
            long double size_of_terms = 0.0L;
            for (std::size_t i = 0; i < size; ++i) {
                const long double term = static_cast<long double>(z[i + 1]) * w[i + 1];
                sum += term;
                size_of_terms += std::abs(term);
            }
            const double got = dot(std::span(z).subspan(1, size), std::span(w).subspan(1, size));
            const double bound =
                (static_cast<double>(size) + 8.0) * 0x1p-53 * static_cast<double>(size_of_terms);
            EXPECT_NEAR(got, static_cast<double>(sum), bound) << size;
        }
    });
}

TEST(Dot, BitsDoNotDependOnAddresses) {
    std::vector<float> z(600);
    std::vector<double> w(600);
    fill_normal(1, Stream::test, 0, std::span(z).first(500));
    for (std::size_t i = 0; i < 500; ++i) w[i] = normal(2, Stream::test, i);
    const double here = dot(std::span(z).first(500), std::span(w).first(500));
    for (const std::ptrdiff_t shift : {1, 3, 50}) {
        std::vector<float> z2(z);
        std::vector<double> w2(w);
        std::copy_n(z.begin(), 500, z2.begin() + shift);
        std::copy_n(w.begin(), 500, w2.begin() + shift);
        const auto first = static_cast<std::size_t>(shift);
        EXPECT_EQ(here, dot(std::span(z2).subspan(first, 500), std::span(w2).subspan(first, 500)));
    }
}

TEST(Dot, PropagatesNan) {
    std::vector<float> z(40, 1.0F);
    const std::vector<double> w(40, 1.0);
    z[17] = std::numeric_limits<float>::quiet_NaN();
    for_each_instruction_set([&] { EXPECT_TRUE(std::isnan(dot(z, w))); });
}

}  // namespace
}  // namespace imka::ops

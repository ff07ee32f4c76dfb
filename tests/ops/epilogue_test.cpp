// Element-wise functions against the same formulas in double.
#include "imka/ops/epilogue/epilogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "imka/base/random.hpp"
#include "support/epilogue_reference.hpp"
#include "support/targets.hpp"

namespace imka::ops {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Small, large and very large arguments (the last from heavy-tailed laws).
std::vector<float> arguments() {
    std::vector<float> u = {0.0F, -0.0F, 1e-30F, 39000.0F, -1e6F, 3e9F};
    for (std::uint64_t i = 0; i < 999; ++i) u.push_back(10.0F * normal(1, Stream::test, i));
    return u;
}

// The header's bound for cos and sin: 1.2e-7 absolute; then one rounding for the scale.
void expect_within_turn(float got, double exact, double scale) {
    ASSERT_NEAR(got, exact, scale * 1.2e-7 + 6e-8 * std::abs(exact)) << exact;
}

// 2 ULP of exp and one rounding for the scale; for subnormal numbers, one step.
void expect_close(float got, double exact) {
    ASSERT_NEAR(got, exact, 3.6e-7 * std::abs(exact) + 1e-38) << exact;
}

// Sizes around the lane counts, at an unaligned address.
template <class Body>
void for_each_slice(const std::vector<float>& u, const Body& body) {
    for (const std::size_t size :
         {0UL, 1UL, 3UL, 4UL, 7UL, 8UL, 15UL, 16UL, 17UL, 31UL, 33UL, u.size() - 1}) {
        body(std::span(u).subspan(1, size));
    }
}

TEST(Epilogue, CosSinAgreesWithDoubleForAnySize) {
    const auto u = arguments();
    for_each_instruction_set([&] {
        for_each_slice(u, [](std::span<const float> x) {
            std::vector<float> c(x.size());
            std::vector<float> s(x.size());
            cos_sin(x, 0.3F, c, s);
            for (std::size_t i = 0; i < x.size(); ++i) {
                expect_within_turn(c[i], double{0.3F} * std::cos(double{x[i]}), 0.3);
                expect_within_turn(s[i], double{0.3F} * std::sin(double{x[i]}), 0.3);
            }
        });
    });
}

// Floats at a fixed stride through the whole domain of the vector code, both signs.
TEST(Epilogue, CosSinKeepsItsBoundOverTheWholeDomain) {
    std::vector<float> u;
    float x = 1e-6F;
    while (x < 13000.0F) {
        u.push_back(x);
        u.push_back(-x);
        x *= 1.00003F;
    }
    // Multiples of a quarter turn, where the argument reduction cancels.
    for (int n = 1; n < 8150; ++n) u.push_back(static_cast<float>(n * 1.5707963267948966));
    for_each_instruction_set([&] {
        std::vector<float> c(u.size());
        std::vector<float> s(u.size());
        cos_sin(u, 1.0F, c, s);
        double worst = 0.0;
        for (std::size_t i = 0; i < u.size(); ++i) {
            worst = std::max(
                {worst, std::abs(c[i] - std::cos(double{u[i]})), std::abs(s[i] - std::sin(double{u[i]}))});
        }
        EXPECT_LT(worst, 1.2e-7);
        EXPECT_GT(worst, 1e-8) << "nothing was computed in float";
    });
}

TEST(Epilogue, BitsOfAValueDoNotDependOnItsPlace) {
    const auto u = arguments();
    for_each_instruction_set([&] {
        std::vector<float> c(u.size());
        std::vector<float> s(u.size());
        cos_sin(u, 0.7F, c, s);
        for (std::size_t i = 0; i < u.size(); ++i) {
            std::array<float, 2> one{};
            cos_sin(std::span(u).subspan(i, 1), 0.7F, std::span(one).first(1), std::span(one).last(1));
            ASSERT_EQ(one[0], c[i]);
            ASSERT_EQ(one[1], s[i]);
        }
    });
}

TEST(Epilogue, OffsetCosAddsInFloat) {
    const auto u = arguments();
    const std::vector<float> b(u.size(), 2.5F);
    for_each_instruction_set([&] {
        for_each_slice(u, [&](std::span<const float> x) {
            std::vector<float> out(x.size());
            offset_cos(x, std::span(b).first(x.size()), 0.3F, out);
            for (std::size_t i = 0; i < x.size(); ++i) {
                expect_within_turn(out[i], double{0.3F} * std::cos(double{x[i] + 2.5F}), 0.3);
            }
        });
    });
}

TEST(Epilogue, StepsAreTheReferenceToTheBit) {
    auto u = arguments();
    for (const float v : {-2.0F, -0.0F, 0.0F, 1e-38F, 3.0F, -kInf, kInf}) u.push_back(v);
    for_each_instruction_set([&] {
        for (const int power : {0, 1, 2}) {
            std::vector<float> out(u.size());
            std::vector<float> expected(u.size());
            step_power(u, power, 0.5F, out);
            reference::step_power(u, power, 0.5F, expected);
            EXPECT_EQ(out, expected) << power;
        }
    });
}

TEST(EpilogueReference, StepsAreZeroAtZeroAndBelow) {
    const std::vector<float> u = {-2.0F, -0.0F, 0.0F, 1e-38F, 3.0F, -kInf, kInf};
    std::vector<float> out(u.size());
    reference::step_power(u, 0, 0.5F, out);
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0, 0.5F, 0.5F, 0, 0.5F}));
    reference::step_power(u, 1, 0.5F, out);
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0, 0.5e-38F, 1.5F, 0, kInf}));
    reference::step_power(u, 2, 0.5F, out);
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0, 0, 4.5F, 0, kInf}));
}

TEST(Epilogue, ExponentialsAreWithinTheirBoundAndDoNotOverflowOnTheWay) {
    auto u = arguments();
    for (const float v : {0.0F, 1.0F, -3.0F, 120.0F, 80.0F, -200.0F, 1e9F, -kInf, kInf}) u.push_back(v);
    for_each_instruction_set([&] {
        for (const float shift : {0.0F, -3.25F, -100.0F}) {
            std::vector<float> p(u.size());
            std::vector<float> n(u.size());
            exp_plus_minus(u, shift, 2.0F, p, n);
            for (std::size_t i = 0; i < u.size(); ++i) {
                const double plus = 2.0 * std::exp(double{u[i] + shift});
                const double minus = 2.0 * std::exp(double{shift - u[i]});
                if (plus < 3.4e38) expect_close(p[i], plus);
                if (minus < 3.4e38) expect_close(n[i], minus);
                if (plus > 3.5e38) {
                    ASSERT_EQ(p[i], kInf);
                }
                if (minus > 3.5e38) {
                    ASSERT_EQ(n[i], kInf);
                }
            }
        }
    });
}

TEST(Epilogue, NanStaysNan) {
    std::vector<float> u(40, 1.0F);
    u[5] = u[39] = kNan;
    std::vector<float> a(40);
    std::vector<float> b(40);
    const auto only_these = [](const std::vector<float>& v) {
        for (std::size_t i = 0; i < v.size(); ++i) ASSERT_EQ(std::isnan(v[i]), i == 5 || i == 39) << i;
    };
    for_each_instruction_set([&] {
        cos_sin(u, 1.0F, a, b);
        only_these(a);
        only_these(b);
        offset_cos(u, std::vector<float>(40), 1.0F, a);
        only_these(a);
        exp_plus_minus(u, 0.0F, 1.0F, a, b);
        only_these(a);
        only_these(b);
        for (const int power : {0, 1, 2}) {
            step_power(u, power, 1.0F, a);
            only_these(a);
        }
    });
}

}  // namespace
}  // namespace imka::ops

// Element-wise functions against the same formulas in double.
#include "imka/ops/epilogue/epilogue.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "imka/base/random.hpp"

namespace imka::ops {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Small, large and very large arguments (heavy-tailed laws give the last).
std::vector<float> arguments() {
    std::vector<float> u = {0.0F, -0.0F, 1e-30F, 39000.0F, -1e6F, 3e9F};
    for (std::uint64_t i = 0; i < 999; ++i) u.push_back(10.0F * normal(1, Stream::test, i));
    return u;
}

// One rounding of the function (1 ULP) and one of the scale.
void expect_close(float got, double exact) {
    ASSERT_NEAR(got, exact, 1.6e-7 * std::abs(exact) + 1e-44) << exact;
}

TEST(Epilogue, CosSinAgreesWithDoubleForAnySize) {
    const auto u = arguments();
    std::vector<float> c(u.size());
    std::vector<float> s(u.size());
    cos_sin(u, 0.3F, c, s);
    for (std::size_t i = 0; i < u.size(); ++i) {
        expect_close(c[i], double{0.3F} * std::cos(double{u[i]}));
        expect_close(s[i], double{0.3F} * std::sin(double{u[i]}));
    }
}

TEST(Epilogue, OffsetCosAddsInFloat) {
    const auto u = arguments();
    const std::vector<float> b(u.size(), 2.5F);
    std::vector<float> out(u.size());
    offset_cos(u, b, 0.3F, out);
    for (std::size_t i = 0; i < u.size(); ++i)
        expect_close(out[i], double{0.3F} * std::cos(double{u[i] + 2.5F}));
}

TEST(Epilogue, StepsAreZeroAtZeroAndBelow) {
    const std::vector<float> u = {-2.0F, -0.0F, 0.0F, 1e-38F, 3.0F, -kInf, kInf};
    std::vector<float> out(u.size());
    step_power(u, 0, 0.5F, out);
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0, 0.5F, 0.5F, 0, 0.5F}));
    step_power(u, 1, 0.5F, out);
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0, 0.5e-38F, 1.5F, 0, kInf}));
    step_power(u, 2, 0.5F, out);
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0, 0, 4.5F, 0, kInf}));
}

TEST(Epilogue, ExponentialsDoNotOverflowWhereTheirProductDoesNot) {
    const std::vector<float> u = {0.0F, 1.0F, -3.0F, 120.0F};
    std::vector<float> p(4);
    std::vector<float> n(4);
    exp_plus_minus(u, -100.0F, 2.0F, p, n);
    for (std::size_t i = 0; i < 4; ++i) {
        expect_close(p[i], 2.0 * std::exp(double{u[i]} - 100.0));
        expect_close(n[i], 2.0 * std::exp(-double{u[i]} - 100.0));
    }
}

TEST(Epilogue, NanStaysNan) {
    const std::vector<float> u = {kNan};
    std::vector<float> a(1);
    std::vector<float> b(1);
    cos_sin(u, 1.0F, a, b);
    EXPECT_TRUE(std::isnan(a[0]) && std::isnan(b[0]));
    offset_cos(u, u, 1.0F, a);
    EXPECT_TRUE(std::isnan(a[0]));
    exp_plus_minus(u, 0.0F, 1.0F, a, b);
    EXPECT_TRUE(std::isnan(a[0]) && std::isnan(b[0]));
    for (const int power : {0, 1, 2}) {
        step_power(u, power, 1.0F, a);
        EXPECT_TRUE(std::isnan(a[0])) << power;
    }
}

}  // namespace
}  // namespace imka::ops

// Exact kernels against independent formulas for the same functions.
#include "imka/kernel/kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace {

using imka::Kernel;
using Point = std::vector<float>;
constexpr double kPi = std::numbers::pi;

double k(Kernel kernel, const Point& x, const Point& y, double gamma = 0.3) {
    return imka::kernel_info(kernel).value(x, y, gamma);
}

Point random_point(std::size_t d, std::uint64_t index) {
    Point x(d);
    imka::fill_normal(11, imka::Stream::test, index * 1000, x);
    return x;
}

Point scaled(Point x, float s) {
    for (float& v : x) v *= s;
    return x;
}

double simpson(double a, double b, const std::function<double(double)>& f) {
    constexpr int kIntervals = 2000;
    const double h = (b - a) / kIntervals;
    double sum = f(a) + f(b);
    for (int i = 1; i < kIntervals; ++i) sum += f(a + i * h) * (i % 2 == 1 ? 4.0 : 2.0);
    return sum * h / 3.0;
}

double distance(const Point& x, const Point& y) {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(double{x[i]} - double{y[i]}, 2);
    return std::sqrt(sum);
}

// E cos(ω·δ) for ω ~ N(0, 2γ I), by quadrature over each coordinate.
TEST(KernelValue, RbfIsTheCharacteristicFunctionOfItsLaw) {
    const auto x = random_point(3, 0);
    const auto y = random_point(3, 1);
    const double gamma = 0.3;
    double product = 1.0;
    for (std::size_t i = 0; i < 3; ++i) {
        const double delta = double{x[i]} - double{y[i]};
        product *= simpson(-12.0, 12.0, [&](double g) {
            return std::cos(std::sqrt(2.0 * gamma) * g * delta) * std::exp(-g * g / 2.0) /
                   std::sqrt(2.0 * kPi);
        });
    }
    EXPECT_NEAR(k(Kernel::rbf, x, y, gamma), product, 1e-12);
}

TEST(KernelValue, RbfAtDistanceOneOverSqrtGammaIsOneOverE) {
    EXPECT_NEAR(k(Kernel::rbf, {0.0F, 3.0F}, {2.0F, 3.0F}, 0.25), std::exp(-1.0), 1e-15);
}

// exp(-γ s) = 1/2 for s = ln 2 / γ; the L1 distance of these points is 4.
TEST(KernelValue, LaplaceSeesTheL1Distance) {
    EXPECT_NEAR(k(Kernel::laplace, {1.0F, -1.0F, 0.5F}, {2.0F, 1.0F, -0.5F}, std::numbers::ln2 / 4.0), 0.5,
                1e-15);
}

// The Matérn family: 2^(1-ν)/Γ(ν) a^ν K_ν(a), a = sqrt(2ν) r/ℓ.
TEST(KernelValue, MaternAgreesWithItsBesselForm) {
    const double gamma = 0.3;
    for (std::uint64_t i = 0; i < 5; ++i) {
        const auto x = random_point(4, 2 * i);
        const auto y = random_point(4, 2 * i + 1);
        for (const double nu : {1.5, 2.5}) {
            const double a = std::sqrt(2.0 * nu) * distance(x, y) * std::sqrt(2.0 * gamma);
            const double want =
                std::pow(2.0, 1.0 - nu) / std::tgamma(nu) * std::pow(a, nu) * std::cyl_bessel_k(nu, a);
            EXPECT_NEAR(k(nu == 1.5 ? Kernel::matern32 : Kernel::matern52, x, y, gamma), want, 1e-12);
        }
    }
}

// The definition 2 ∫ Θ(ωx) Θ(ωy) (ωx)ⁿ (ωy)ⁿ dN(ω) in polar coordinates of the plane of x and y. The mean of
// r^(2n) in the plane is 1, 2, 8.
double arccos_by_quadrature(int order, double norms, double theta) {
    const double radial = order == 0 ? 1.0 : (order == 1 ? 2.0 : 8.0);
    const double angular = simpson(theta - kPi / 2.0, kPi / 2.0, [&](double phi) {
        return std::pow(std::cos(phi) * std::cos(phi - theta), order);
    });
    return 2.0 * radial * std::pow(norms, order) * angular / (2.0 * kPi);
}

TEST(KernelValue, ArccosIsTheIntegralThatDefinesIt) {
    const Kernel kernels[] = {Kernel::arccos0, Kernel::arccos1, Kernel::arccos2};
    for (int order = 0; order < 3; ++order) {
        for (const double theta : {0.1, 0.7, kPi / 2.0, 2.0, 3.0}) {
            const Point x = {2.0F, 0.0F, 0.0F};
            const Point y = {static_cast<float>(1.5 * std::cos(theta)), 0.0F,
                             static_cast<float>(1.5 * std::sin(theta))};
            const double exact_theta = std::atan2(double{y[2]}, double{y[0]});
            const double norms = 2.0 * std::hypot(double{y[0]}, double{y[2]});
            EXPECT_NEAR(k(kernels[order], x, y), arccos_by_quadrature(order, norms, exact_theta), 1e-11)
                << order << " " << theta;
        }
    }
}

// Literature values: orthogonal unit vectors have 1/2, 1/π, 1/2.
TEST(KernelValue, ArccosOfOrthogonalVectors) {
    EXPECT_NEAR(k(Kernel::arccos0, {1.0F, 0.0F}, {0.0F, 1.0F}), 0.5, 1e-15);
    EXPECT_NEAR(k(Kernel::arccos1, {1.0F, 0.0F}, {0.0F, 1.0F}), 1.0 / kPi, 1e-15);
    EXPECT_NEAR(k(Kernel::arccos2, {1.0F, 0.0F}, {0.0F, 1.0F}), 0.5, 1e-15);
}

TEST(KernelValue, ArccosOfAPointWithItselfIsAPowerOfItsLength) {
    const Point x = {3.0F, 4.0F};
    EXPECT_EQ(k(Kernel::arccos0, x, x), 1.0);
    EXPECT_NEAR(k(Kernel::arccos1, x, x), 25.0, 1e-13);
    EXPECT_NEAR(k(Kernel::arccos2, x, x), 3.0 * 625.0, 1e-11);
    for (const auto kernel : {Kernel::arccos0, Kernel::arccos1, Kernel::arccos2})
        EXPECT_NEAR(k(kernel, x, scaled(x, -1.0F)), 0.0, 1e-12);
}

TEST(KernelValue, ArccosIsHomogeneous) {
    const auto x = random_point(5, 3);
    const auto y = random_point(5, 4);
    const Kernel kernels[] = {Kernel::arccos0, Kernel::arccos1, Kernel::arccos2};
    for (int order = 0; order < 3; ++order) {
        const double want = std::pow(4.0 * 0.5, order) * k(kernels[order], x, y);
        EXPECT_NEAR(k(kernels[order], scaled(x, 4.0F), scaled(y, 0.5F)), want, 1e-14 * want);
    }
}

TEST(KernelValue, ArccosOfAZeroPointIsZeroAsItsFeaturesAre) {
    const Point zero(4, 0.0F);
    for (const auto kernel : {Kernel::arccos0, Kernel::arccos1, Kernel::arccos2}) {
        EXPECT_EQ(k(kernel, zero, random_point(4, 5)), 0.0);
        EXPECT_EQ(k(kernel, random_point(4, 5), zero), 0.0);
        EXPECT_EQ(k(kernel, zero, zero), 0.0);
    }
}

TEST(KernelValue, SoftmaxIsTheExponentialOfTheScaledProduct) {
    const Point x = {1.0F, 2.0F, -1.0F, 0.5F};
    const Point y = {0.5F, 0.25F, 2.0F, 4.0F};  // xᵀy = 1, sqrt(4) = 2
    EXPECT_NEAR(k(Kernel::softmax, x, y), std::exp(0.5), 1e-15);
}

TEST(KernelValue, IsSymmetric) {
    for (const auto& row : imka::kernel_registry()) {
        for (std::uint64_t i = 0; i < 10; ++i) {
            const auto x = random_point(7, i);
            const auto y = random_point(7, i + 50);
            EXPECT_EQ(row.value(x, y, 0.2), row.value(y, x, 0.2)) << imka::to_string(row.kernel);
        }
    }
}

TEST(KernelValue, PropagatesNan) {
    const Point bad = {1.0F, std::numeric_limits<float>::quiet_NaN(), 2.0F};
    for (const auto& row : imka::kernel_registry())
        EXPECT_TRUE(std::isnan(row.value(bad, random_point(3, 1), 0.2))) << imka::to_string(row.kernel);
}

TEST(KernelRegistry, RowsAreInTheOrderOfTheirEnumerators) {
    const auto rows = imka::kernel_registry();
    ASSERT_EQ(rows.size(), std::size(imka::EnumNames<Kernel>::values));
    for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(static_cast<std::size_t>(rows[i].kernel), i);
        EXPECT_FALSE(rows[i].formula.empty());
        EXPECT_FALSE(rows[i].law_text.empty());
    }
}

}  // namespace

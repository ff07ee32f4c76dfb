// Errors of products with known parts.
#include "imka/chip/analyse/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "imka/base/random.hpp"
#include "imka/chip/program/calibrate.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

constexpr std::size_t kInputs = 20;
constexpr std::size_t kOutputs = 30;

struct Made {
    Matrix<float> x;
    Matrix<float> y;
    Matrix<double> exact;
};

// Weights with an error of `weight` (exact ones have standard deviation 1), noise of `noise` times the
// standard deviation of the products, and a constant per output of `bias` times that standard deviation.
Made make(std::size_t count, double weight, double noise, double bias) {
    Matrix<float> w(kInputs, kOutputs);
    fill_normal(1, Stream::test, 0, w.values());
    Matrix<float> off(kInputs, kOutputs);
    fill_normal(2, Stream::test, 0, off.values());
    Made m{Matrix<float>(count, kInputs), Matrix<float>(count, kOutputs), {}};
    fill_normal(3, Stream::test, 0, m.x.values());
    m.exact = exact_products(m.x.view(), w.view());
    const auto shift = exact_products(m.x.view(), off.view());
    const double scale = std::sqrt(static_cast<double>(kInputs));
    for (std::size_t v = 0; v < count; ++v) {
        for (std::size_t c = 0; c < kOutputs; ++c) {
            const double z = normal(4, Stream::test, v * kOutputs + c);
            const double b = c % 2 == 0 ? 1.0 : -1.0;
            m.y(v, c) =
                static_cast<float>(m.exact(v, c) + weight * shift(v, c) + scale * (noise * z + bias * b));
        }
    }
    return m;
}

TEST(ErrorParts, WrongWeightsAreLinearAndNoiseIsResidual) {
    // 600 weights and 4000 x 30 noise values: their mean squares are known within 5.8 % and 0.4 % (one
    // standard deviation).
    const auto m = make(4000, 0.10, 0.05, 0.0);
    const auto parts = error_parts(m.x.view(), m.y.view(), m.exact.view());
    ASSERT_TRUE(parts.linear && parts.residual);
    EXPECT_NEAR(*parts.linear, 0.10, 0.10 * 5 * 0.5 * 0.082);
    EXPECT_NEAR(*parts.residual, 0.05, 0.05 * 5 * 0.5 * 0.06);
    EXPECT_NEAR(std::hypot(*parts.linear, *parts.residual), parts.total, 1e-9);
    EXPECT_NEAR(parts.snr_db, -20.0 * std::log10(parts.total), 1e-9);
}

TEST(ErrorParts, FewInputsDoNotTurnNoiseIntoWeights) {
    // 40 inputs for 20 weights: the map explains half of the noise, which is corrected.
    const auto m = make(40, 0.0, 0.05, 0.0);
    const auto parts = error_parts(m.x.view(), m.y.view(), m.exact.view());
    // 20 x 30 degrees of freedom: residual² within 5.8 % (one standard deviation); the rest of total² is
    // linear.
    EXPECT_NEAR(*parts.residual / parts.total, 1.0, 5 * 0.03);
    EXPECT_LT(*parts.linear / parts.total, 0.54);
}

TEST(ErrorParts, BiasIsTheMeanErrorOfOutputs) {
    const auto with = make(4000, 0.0, 0.05, 0.03);
    const auto parts = error_parts(with.x.view(), with.y.view(), with.exact.view());
    // The scale of the exact products comes from 600 weights: one standard deviation is 2.9 %.
    EXPECT_NEAR(parts.bias, 0.03, 0.03 * 5 * 0.029);
    const auto none = make(4000, 0.0, 0.05, 0.0);
    EXPECT_LT(error_parts(none.x.view(), none.y.view(), none.exact.view()).bias, 0.0008);
}

TEST(ErrorParts, NeedMoreInputsThanRows) {
    const auto m = make(kInputs, 0.1, 0.05, 0.0);
    const auto parts = error_parts(m.x.view(), m.y.view(), m.exact.view());
    EXPECT_FALSE(parts.linear);
    EXPECT_FALSE(parts.residual);
    EXPECT_GT(parts.total, 0.0);
}

TEST(ErrorParts, InputsThatAreAlwaysZeroOrTheSameDoNotMatter) {
    auto m = make(200, 0.1, 0.0, 0.0);
    Matrix<float> wide(200, kInputs + 2);
    for (std::size_t v = 0; v < 200; ++v) {
        std::copy(m.x.row(v).begin(), m.x.row(v).end(), wide.row(v).begin());
        wide(v, kInputs + 1) = m.x(v, 0);
    }
    const auto parts = error_parts(wide.view(), m.y.view(), m.exact.view());
    EXPECT_NEAR(*parts.linear, parts.total, 1e-4 * parts.total);
}

TEST(ErrorParts, ZeroProductsAreAnError) {
    const Matrix<float> x(3, 2);
    const Matrix<float> y(3, 4);
    const Matrix<double> exact(3, 4);
    EXPECT_THAT(
        error_of([&] { error_parts(x.view(), y.view(), exact.view()); }),
        testing::AllOf(testing::StartsWith("bad_data: "), testing::HasSubstr("all exact products are 0")));
}

}  // namespace
}  // namespace imka

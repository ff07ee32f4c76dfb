// Activations on every instruction set against plain loops.
#include "imka/ops/activation/activation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "imka/base/random.hpp"
#include "support/activation_reference.hpp"
#include "support/targets.hpp"

namespace imka::ops {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> row(std::size_t size, std::uint64_t seed, float scale) {
    std::vector<float> x(size);
    for (std::size_t i = 0; i < size; ++i) x[i] = scale * static_cast<float>(normal(seed, Stream::test, i));
    return x;
}

// Sizes around the lane counts, from an unaligned address.
template <class Body>
void for_rows(float scale, const Body& body) {
    for_each_instruction_set([&] {
        for (const std::size_t size : {1U, 3U, 4U, 7U, 8U, 15U, 16U, 17U, 31U, 33U, 64U, 100U, 513U}) {
            const auto values = row(size + 1, size, scale);
            body(std::span(values).subspan(1));
        }
    });
}

TEST(Activation, GeluEqualsTheReference) {
    for (const float scale : {0.1F, 2.0F, 30.0F}) {
        for_rows(scale, [](std::span<const float> x) {
            std::vector<float> y(x.size());
            gelu(x, y);
            const auto expected = reference::gelu(x);
            for (std::size_t i = 0; i < x.size(); ++i)
                EXPECT_NEAR(y[i], expected[i], 3e-7 * std::max(1.0F, std::abs(x[i]))) << x[i];
        });
    }
}

TEST(Activation, SoftmaxEqualsTheReference) {
    for (const float scale : {0.1F, 3.0F, 40.0F}) {
        for_rows(scale, [](std::span<const float> x) {
            std::vector<float> y(x.size());
            softmax(x, y);
            const auto expected = reference::softmax(x);
            const float most = *std::ranges::max_element(x);
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double relative =
                    1e-6 + 6e-8 * (double{most} - x[i] + static_cast<double>(x.size()));  // one lane
                EXPECT_NEAR(y[i], expected[i], 1e-30 + relative * expected[i]) << x[i];
            }
        });
    }
}

TEST(Activation, LayerNormEqualsTheReference) {
    for_rows(3.0F, [](std::span<const float> x) {
        const auto scale = row(x.size(), 7, 1.0F);
        const auto bias = row(x.size(), 8, 1.0F);
        std::vector<float> y(x.size());
        layer_norm(x, {scale, bias, 1e-5F}, y);
        const auto expected = reference::layer_norm(x, scale, bias, 1e-5);
        for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-5) << i;
    });
}

TEST(Activation, MaskedElementsAreZeroAndNanSpreads) {
    for_each_instruction_set([] {
        std::vector<float> x(37, 1.0F);
        x[3] = -kInfinity;
        std::vector<float> y(x.size());
        softmax(x, y);
        EXPECT_EQ(y[3], 0.0F);
        EXPECT_FLOAT_EQ(y[36], 1.0F / 36.0F);
        x[20] = kNan;
        softmax(x, y);
        for (const float v : y) EXPECT_TRUE(std::isnan(v));
        gelu(x, y);
        EXPECT_TRUE(std::isnan(y[20]));
        EXPECT_FALSE(std::isnan(y[19]));
        x[20] = kInfinity;
        softmax(x, y);
        EXPECT_EQ(y[20], 1.0F);
        EXPECT_EQ(y[0], 0.0F);
        gelu(x, y);
        EXPECT_EQ(y[20], kInfinity);
        EXPECT_TRUE(std::isnan(y[3]));
    });
}

TEST(Activation, WorksInPlace) {
    const auto x = row(45, 1, 1.0F);
    auto y = x;
    std::vector<float> z(x.size());
    softmax(x, z);
    softmax(y, y);
    EXPECT_EQ(y, z);
}

}  // namespace
}  // namespace imka::ops

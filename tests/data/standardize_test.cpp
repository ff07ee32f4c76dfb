// Standardisation.
#include "imka/data/standardize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

Matrix<float> random_matrix(std::size_t rows, std::size_t cols) {
    Matrix<float> x(rows, cols);
    fill_normal(11, Stream::test, 0, x.values());
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c)
            x(r, c) = x(r, c) * static_cast<float>(c + 1) + 100.0F * static_cast<float>(c);
    }
    return x;
}

class Notes : public LogSink {
public:
    void note(std::string_view text) override { texts += std::string(text) + "\n"; }
    std::string texts;
};

TEST(Standardize, KnownNumbers) {
    Matrix<float> x(4, 1);
    for (std::size_t r = 0; r < 4; ++r) x(r, 0) = static_cast<float>(r);  // 0 1 2 3: mean 1.5, variance 5/3
    const auto s = compute_standardization(x.view(), {});
    EXPECT_DOUBLE_EQ(s.mean[0], 1.5);
    EXPECT_DOUBLE_EQ(s.std[0], std::sqrt(5.0 / 3.0));
    apply_standardization(s, {}, x.view());
    EXPECT_FLOAT_EQ(x(3, 0), static_cast<float>(1.5 / std::sqrt(5.0 / 3.0)));
}

TEST(Standardize, GivesMeanZeroAndDeviationOne) {
    auto x = random_matrix(10001, 5);
    apply_standardization(compute_standardization(x.view(), {}), {}, x.view());
    const auto again = compute_standardization(x.view(), {});
    for (std::size_t c = 0; c < 5; ++c) {
        // The remaining error is the rounding of values to float (relative 6e-8).
        EXPECT_NEAR(again.mean[c], 0.0, 1e-7);
        EXPECT_NEAR(again.std[c], 1.0, 1e-7);
    }
}

TEST(Standardize, HasTheSameBitsForAnyThreadCount) {
    const auto x = random_matrix(20000, 3);
    const auto one = compute_standardization(x.view(), {.threads = 1});
    for (const int threads : {2, 3, 8})
        EXPECT_EQ(one, compute_standardization(x.view(), {.threads = threads}));
}

TEST(Standardize, ConstantColumnBecomesZeroWithANote) {
    Matrix<float> x(1000, 2);
    for (std::size_t r = 0; r < 1000; ++r) {
        x(r, 0) = 0.1F;  // a value whose sums round
        x(r, 1) = static_cast<float>(r);
    }
    Notes notes;
    const auto s = compute_standardization(x.view(), {.log = &notes});
    EXPECT_EQ(s.std[0], 1.0);
    EXPECT_THAT(notes.texts, testing::HasSubstr("1 of 2 features are constant"));
    apply_standardization(s, {}, x.view());
    for (std::size_t r = 0; r < 1000; ++r) EXPECT_EQ(x(r, 0), 0.0F);
}

TEST(Standardize, SingleRowBecomesZero) {
    auto x = random_matrix(1, 4);
    apply_standardization(compute_standardization(x.view(), {}), {}, x.view());
    for (const float v : x.values()) EXPECT_EQ(v, 0.0F);
}

TEST(Standardize, LargeValuesCloseTogetherKeepTheirDigits) {
    Matrix<float> x(3, 1);
    x(0, 0) = 16777214.0F;
    x(1, 0) = 16777215.0F;
    x(2, 0) = 16777216.0F;
    const auto s = compute_standardization(x.view(), {});
    EXPECT_DOUBLE_EQ(s.mean[0], 16777215.0);
    EXPECT_DOUBLE_EQ(s.std[0], 1.0);
}

TEST(Standardize, RefusesTheWrongNumberOfColumns) {
    auto x = random_matrix(3, 2);
    const auto s = compute_standardization(random_matrix(3, 3).view(), {});
    EXPECT_THROW(apply_standardization(s, {}, x.view()), Error);
    EXPECT_THROW(compute_standardization(MatrixView<const float>(), {}), Error);
}

}  // namespace
}  // namespace imka

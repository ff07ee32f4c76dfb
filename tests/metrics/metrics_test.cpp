// Accuracy, Gram error and intervals compared with numbers computed by hand or from tables.
#include <gtest/gtest.h>

#include <cmath>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {
namespace {

TEST(Accuracy, CountsEqualRows) {
    const std::vector<std::int32_t> truth = {0, 1, 1, 2};
    const std::vector<std::int32_t> got = {0, 1, 0, 2};
    EXPECT_EQ(accuracy(truth, got), 0.75);
}

TEST(BinomialError, IsTheStandardErrorOfAShare) {
    EXPECT_DOUBLE_EQ(binomial_error(0.5, 100), 0.05);
    EXPECT_DOUBLE_EQ(binomial_error(0.9, 900), 0.01);
    EXPECT_EQ(binomial_error(1.0, 10), 0.0);
}

// Two-sided 95 % points of Student's t from printed tables.
TEST(StudentQuantile, AgreesWithPrintedTables) {
    EXPECT_NEAR(student_quantile(0.95, 1), 12.706, 5e-4);
    EXPECT_NEAR(student_quantile(0.95, 2), 4.303, 5e-4);
    EXPECT_NEAR(student_quantile(0.95, 4), 2.776, 5e-4);
    EXPECT_NEAR(student_quantile(0.95, 9), 2.262, 5e-4);
    EXPECT_NEAR(student_quantile(0.99, 10), 3.169, 5e-4);
    EXPECT_NEAR(student_quantile(0.95, 1000), 1.962, 5e-4);
    EXPECT_NEAR(student_probability(2.262, 9), 0.95, 1e-4);
}

TEST(Summarize, GivesMeanDeviationAndInterval) {
    const auto s = summarize({1.0, 2.0, 3.0, 4.0, 5.0});
    EXPECT_DOUBLE_EQ(s.mean, 3.0);
    EXPECT_DOUBLE_EQ(s.std, std::sqrt(2.5));
    EXPECT_NEAR(s.half_width, 2.776 * std::sqrt(0.5), 1e-3);
    const auto one = summarize({7.0});
    EXPECT_EQ(one.mean, 7.0);
    EXPECT_EQ(one.std, 0.0);
    EXPECT_EQ(one.half_width, 0.0);
    EXPECT_EQ(one.n, 1U);
    EXPECT_EQ(Summary{}.error(), 0.0);
}

TEST(Summarize, DeviationIsInCombinedStandardErrors) {
    auto ours = summarize({1.0, 1.2, 0.8, 1.0});
    const auto published = ours;
    EXPECT_EQ(deviation(ours, published), 0.0);
    ours.mean += 2.9 * std::sqrt(2.0) * published.error();
    EXPECT_NEAR(deviation(ours, published), 2.9, 1e-9);
    EXPECT_EQ(deviation({.mean = 2.0, .n = 1}, {.mean = 1.0, .n = 1}), INFINITY);
    EXPECT_EQ(deviation({.mean = 1.0, .n = 1}, {.mean = 1.0, .n = 1}), 0.0);
}

TEST(GramError, MatchesTheNaiveNormRatioForAnyThreads) {
    const std::size_t n = 300;
    Matrix<float> z(n, 7);
    fill_normal(1, Stream::test, 0, z.values());
    Matrix<double> k(n, n);
    double difference = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            double product = 0.0;
            for (std::size_t c = 0; c < 7; ++c) product += double{z(i, c)} * z(j, c);
            k(i, j) = product + normal(2, Stream::test, std::min(i, j) * n + std::max(i, j));
            difference += std::pow(k(i, j) - product, 2);
            size += k(i, j) * k(i, j);
        }
    }
    const double error = gram_error(k.view(), z.view(), Exec{.threads = 1});
    EXPECT_NEAR(error, std::sqrt(difference / size), 1e-12);
    EXPECT_EQ(error, gram_error(k.view(), z.view(), Exec{.threads = 2}));
    EXPECT_EQ(error, gram_error(k.view(), z.view(), Exec{.threads = 7}));
}

// K is exact for the features without errors. With one copy, the variance of the errors adds to the diagonal.
TEST(GramError, OfTwoCopiesHasNoBiasFromTheirErrors) {
    const std::size_t n = 300;
    const std::size_t features = 40;
    Matrix<float> f(n, features);
    fill_normal(1, Stream::test, 0, f.values());
    const auto with_errors = [&](std::uint64_t seed) {
        Matrix<float> z(n, features);
        fill_normal(seed, Stream::test, 0, z.values());
        for (std::size_t i = 0; i < z.values().size(); ++i) z.values()[i] = f.values()[i] + z.values()[i];
        return z;
    };
    const auto a = with_errors(2);
    const auto b = with_errors(3);
    Matrix<double> k(n, n);
    double difference = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            double crossed = 0.0;
            for (std::size_t c = 0; c < features; ++c) {
                k(i, j) += double{f(i, c)} * f(j, c);
                crossed += 0.5 * (double{a(i, c)} * b(j, c) + double{b(i, c)} * a(j, c));
            }
            difference += std::pow(k(i, j) - crossed, 2);
            size += k(i, j) * k(i, j);
        }
    }
    const double two = gram_error(k.view(), a.view(), b.view(), {.threads = 1});
    EXPECT_NEAR(two, std::sqrt(difference / size), 1e-12);
    EXPECT_EQ(two, gram_error(k.view(), a.view(), b.view(), {.threads = 3}));
    EXPECT_LT(two, 0.9 * gram_error(k.view(), a.view(), {.threads = 1}));
}

TEST(GramError, RefusesAZeroMatrix) {
    const Matrix<double> k(2, 2);
    const Matrix<float> z(2, 1);
    EXPECT_THROW((void)gram_error(k.view(), z.view(), Exec{}), Error);
}

TEST(Summarize, OneValueHasNoSpreadInJson) {
    EXPECT_EQ(to_json(summarize({0.5})), R"({"mean":0.5,"std":null,"ci95":null,"values":[0.5]})");
    EXPECT_EQ(to_json(summarize({0.5, 0.5})), R"({"mean":0.5,"std":0.0,"ci95":0.0,"values":[0.5,0.5]})");
}

// R² and RMSE by hand, with a mean that would swamp a naive sum of squares.
TEST(SquaredErrors, GiveR2AndRmse) {
    SquaredErrors e;
    for (const double t : {1.0, 2.0, 3.0, 4.0}) e.add(1e9 + t, 1e9 + t + (t < 2.5 ? 0.5 : -0.5));
    EXPECT_EQ(e.rows, 4U);
    EXPECT_DOUBLE_EQ(e.rmse(), 0.5);
    EXPECT_NEAR(e.r2(), 1.0 - 1.0 / 5.0, 1e-12);
    SquaredErrors constant;
    constant.add(3.0, 2.0);
    constant.add(3.0, 4.0);
    EXPECT_DOUBLE_EQ(constant.rmse(), 1.0);
    EXPECT_THROW((void)constant.r2(), Error);
}

}  // namespace
}  // namespace imka

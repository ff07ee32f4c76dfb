// Positive definite systems.
#include "imka/linalg/factor.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

// B Bᵀ + I for a random B.
Matrix<double> random_positive(std::size_t n) {
    Matrix<double> b(n, n);
    for (std::size_t i = 0; i < n * n; ++i) b.values()[i] = normal(1, Stream::test, i);
    Matrix<double> a(n, n);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            for (std::size_t k = 0; k < n; ++k) a(i, j) += b(i, k) * b(j, k);
        }
        a(i, i) += 1.0;
    }
    return a;
}

TEST(SolvePositiveDefinite, SolutionSolvesTheSystem) {
    for (const std::size_t n : {1U, 2U, 17U, 130U, 256U, 257U, 600U}) {
        const auto a = random_positive(n);
        Matrix<double> x(n, 3);
        for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = normal(2, Stream::test, i);
        const auto b = x;
        auto factor = a;
        // Only the upper triangle may be read.
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t j = 0; j < i; ++j) factor(i, j) = std::numeric_limits<double>::quiet_NaN();
        }
        solve_positive_definite(factor.view(), x.view(), "the test system", Exec{});
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t c = 0; c < 3; ++c) {
                double sum = 0.0;
                for (std::size_t j = 0; j < n; ++j) sum += a(i, j) * x(j, c);
                ASSERT_NEAR(sum, b(i, c), 1e-8 * static_cast<double>(n));
            }
        }
    }
}

TEST(SolvePositiveDefinite, BitsDoNotDependOnTheThreads) {
    const auto a = random_positive(700);
    const auto solve = [&](int threads) {
        auto factor = a;
        Matrix<double> x(700, 2);
        for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = normal(2, Stream::test, i);
        solve_positive_definite(factor.view(), x.view(), "the test system", Exec{.threads = threads});
        return x;
    };
    const auto one = solve(1);
    EXPECT_EQ(one, solve(2));
    EXPECT_EQ(one, solve(7));
}

void expect_refused(Matrix<double> a) {
    Matrix<double> b(a.rows(), 1);
    try {
        solve_positive_definite(a.view(), b.view(), "the test system", Exec{});
        FAIL() << "accepted";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::numeric);
        EXPECT_NE(std::string(e.what()).find("the test system is not positive definite"), std::string::npos);
    }
}

TEST(SolvePositiveDefinite, RefusesSingularIndefiniteAndNan) {
    Matrix<double> singular(3, 3);
    singular(0, 0) = 1.0;
    singular(1, 1) = 1.0;
    expect_refused(singular);
    auto indefinite = random_positive(8);
    indefinite(5, 5) = -1.0;
    expect_refused(indefinite);
    auto nan = random_positive(8);
    nan(2, 6) = std::numeric_limits<double>::quiet_NaN();
    expect_refused(nan);
    auto late = random_positive(300);
    late(290, 290) = -1.0;
    expect_refused(late);
}

}  // namespace
}  // namespace imka

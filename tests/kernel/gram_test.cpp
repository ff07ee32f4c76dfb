// Gram matrices: entries, thread count, positive definiteness, bad shapes.
#include <gtest/gtest.h>

#include <cmath>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/kernel/kernel.hpp"

namespace {

using imka::Kernel;
using imka::Matrix;

Matrix<float> points(std::size_t n, std::size_t d, std::uint64_t seed) {
    Matrix<float> x(n, d);
    imka::fill_normal(seed, imka::Stream::test, 0, x.values());
    return x;
}

class GramOf : public testing::TestWithParam<Kernel> {};
INSTANTIATE_TEST_SUITE_P(Kernels, GramOf,
                         testing::Values(Kernel::rbf, Kernel::laplace, Kernel::matern32, Kernel::matern52,
                                         Kernel::arccos0, Kernel::arccos1, Kernel::arccos2, Kernel::softmax),
                         [](const auto& p) { return std::string(imka::to_string(p.param)); });

TEST_P(GramOf, EntriesAreValuesForAnyThreadCount) {
    const auto x = points(37, 5, 1);
    const auto y = points(21, 5, 2);
    Matrix<double> one(37, 21);
    Matrix<double> three(37, 21);
    imka::exact_gram(GetParam(), 0.3, x.view(), y.view(), {.threads = 1}, one.view());
    imka::exact_gram(GetParam(), 0.3, x.view(), y.view(), {.threads = 3}, three.view());
    EXPECT_EQ(one, three);
    for (std::size_t i = 0; i < 37; ++i) {
        for (std::size_t j = 0; j < 21; ++j)
            ASSERT_EQ(one(i, j), imka::kernel_info(GetParam()).value(x.row(i), y.row(j), 0.3));
    }
}

// Elimination of K + 1e-10 trace(K) I has positive pivots if K is positive semidefinite.
TEST_P(GramOf, IsPositiveSemidefinite) {
    const std::size_t n = 24;
    const auto x = points(n, 3, 5);
    Matrix<double> g(n, n);
    imka::exact_gram(GetParam(), 0.3, x.view(), x.view(), {.threads = 1}, g.view());
    double trace = 0.0;
    for (std::size_t i = 0; i < n; ++i) trace += g(i, i);
    for (std::size_t i = 0; i < n; ++i) g(i, i) += 1e-10 * trace;
    for (std::size_t p = 0; p < n; ++p) {
        ASSERT_GT(g(p, p), 0.0) << "pivot " << p;
        for (std::size_t i = p + 1; i < n; ++i) {
            const double factor = g(i, p) / g(p, p);
            for (std::size_t j = p; j < n; ++j) g(i, j) -= factor * g(p, j);
        }
    }
}

TEST(Gram, EmptyInputsGiveAnEmptyMatrix) {
    const Matrix<float> none(0, 4);
    const auto y = points(3, 4, 1);
    Matrix<double> out(0, 3);
    EXPECT_NO_THROW(imka::exact_gram(Kernel::rbf, 1.0, none.view(), y.view(), {}, out.view()));
}

TEST(Gram, BadShapesAndGammasAreRefused) {
    const auto x = points(3, 4, 1);
    const auto other = points(3, 5, 1);
    Matrix<double> out(3, 3);
    Matrix<double> small(2, 3);
    const auto gram = [&](double gamma, const Matrix<float>& y, Matrix<double>& result) {
        imka::exact_gram(Kernel::rbf, gamma, x.view(), y.view(), {}, result.view());
    };
    EXPECT_THROW(gram(1.0, other, out), imka::Error);
    EXPECT_THROW(gram(1.0, x, small), imka::Error);
    EXPECT_THROW(gram(0.0, x, out), imka::Error);
    EXPECT_THROW(gram(-1.0, x, out), imka::Error);
    EXPECT_THROW(gram(std::nan(""), x, out), imka::Error);
    EXPECT_NO_THROW(imka::exact_gram(Kernel::arccos0, 0.0, x.view(), x.view(), {}, out.view()));
}

}  // namespace

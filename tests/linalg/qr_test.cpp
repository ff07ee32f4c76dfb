// Orthonormal bases: orthogonality, span, signs, and calls from many threads.
#include "imka/linalg/factor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"

namespace {

using imka::Matrix;
using imka::QrSigns;

Matrix<double> gaussian(std::size_t n, std::uint64_t seed) {
    Matrix<double> a(n, n);
    for (std::size_t i = 0; i < n * n; ++i) a.values()[i] = imka::normal(seed, imka::Stream::test, i);
    return a;
}

double row_dot(const Matrix<double>& a, std::size_t i, const Matrix<double>& b, std::size_t j) {
    double sum = 0.0;
    for (std::size_t k = 0; k < a.cols(); ++k) sum += a(i, k) * b(j, k);
    return sum;
}

void expect_orthonormal(const Matrix<double>& q) {
    const double bound = 10.0 * static_cast<double>(q.rows()) * 0x1p-53;
    for (std::size_t i = 0; i < q.rows(); ++i) {
        for (std::size_t j = 0; j <= i; ++j)
            ASSERT_NEAR(row_dot(q, i, q, j), i == j ? 1.0 : 0.0, bound) << i << " " << j;
    }
}

class QrOf : public testing::TestWithParam<QrSigns> {};
INSTANTIATE_TEST_SUITE_P(Signs, QrOf, testing::Values(QrSigns::positive_diagonal, QrSigns::householder));

TEST_P(QrOf, RowsAreOrthonormalAndSpanWhatTheFirstRowsSpan) {
    for (const std::size_t n : {1U, 2U, 3U, 7U, 33U, 100U, 130U}) {
        const auto a = gaussian(n, n);
        auto q = a;
        imka::orthonormalize_rows(q.view(), GetParam());
        expect_orthonormal(q);
        // a = L Q: the coefficients of row i on later rows vanish.
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t j = i + 1; j < n; ++j) ASSERT_NEAR(row_dot(a, i, q, j), 0.0, 1e-12) << n;
        }
    }
}

TEST(Qr, PositiveDiagonalIsPositive) {
    const auto a = gaussian(20, 5);
    auto q = a;
    imka::orthonormalize_rows(q.view(), QrSigns::positive_diagonal);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_GT(row_dot(a, i, q, i), 0.0);
}

// The first reflection always makes the first entry of row 0 negative.
TEST(Qr, HouseholderSignsAreNotSymmetric) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        auto q = gaussian(6, seed);
        imka::orthonormalize_rows(q.view(), QrSigns::householder);
        EXPECT_LT(q(0, 0), 0.0);
    }
}

TEST_P(QrOf, SingularMatricesStillGiveABasis) {
    auto a = gaussian(8, 3);
    for (std::size_t j = 0; j < 8; ++j) a(5, j) = 2.0 * a(1, j);
    for (std::size_t j = 0; j < 8; ++j) a(0, j) = 0.0;
    imka::orthonormalize_rows(a.view(), GetParam());
    expect_orthonormal(a);
}

TEST(Qr, WorksOnAViewWithAStride) {
    const auto a = gaussian(5, 9);
    auto plain = a;
    imka::orthonormalize_rows(plain.view(), QrSigns::positive_diagonal);
    Matrix<double> wide(5, 9);
    for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t j = 0; j < 9; ++j) wide(i, j) = j < 5 ? a(i, j) : 77.0;
    }
    imka::orthonormalize_rows(wide.view().slice_cols(0, 5), QrSigns::positive_diagonal);
    for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t j = 0; j < 9; ++j) EXPECT_EQ(wide(i, j), j < 5 ? plain(i, j) : 77.0);
    }
}

TEST(Qr, ManyThreadsGetTheSameBits) {
    auto alone = gaussian(96, 1);
    imka::orthonormalize_rows(alone.view(), QrSigns::positive_diagonal);
    std::vector<int> equal(64, 0);
    imka::parallel_for({.threads = 8}, equal.size(), [&](std::size_t i) {
        auto q = gaussian(96, 1);
        imka::orthonormalize_rows(q.view(), QrSigns::positive_diagonal);
        equal[i] = q == alone ? 1 : 0;
    });
    EXPECT_EQ(equal, std::vector<int>(64, 1));
}

TEST(Qr, BadMatricesAreRefused) {
    Matrix<double> wide(2, 3);
    EXPECT_THROW(imka::orthonormalize_rows(wide.view(), QrSigns::householder), imka::Error);
    auto a = gaussian(3, 1);
    a(1, 1) = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THROW(imka::orthonormalize_rows(a.view(), QrSigns::householder), imka::Error);
}

}  // namespace

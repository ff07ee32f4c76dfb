// Products against naive loops, and the guarantee of products of floats: the bits of a row depend on nothing
// but that row and the right factor.
#include "imka/linalg/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "imka/base/random.hpp"
#include "support/same_bits.hpp"

namespace imka {
namespace {

template <class T>
Matrix<T> random_matrix(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<T> a(rows, cols);
    for (std::size_t i = 0; i < a.values().size(); ++i) a.values()[i] = normal(seed, Stream::test, i);
    return a;
}

template <class T>
void expect_product_nt(double tolerance) {
    for (const auto& [n, m, k] : {std::tuple{1, 1, 1}, {3, 5, 7}, {256, 33, 22}, {256, 129, 1000}}) {
        const auto a = random_matrix<T>(static_cast<std::size_t>(n), static_cast<std::size_t>(k), 1);
        const auto b = random_matrix<T>(static_cast<std::size_t>(m), static_cast<std::size_t>(k), 2);
        Matrix<T> c(a.rows(), b.rows());
        gemm_nt(a.view(), b.view(), c.view());
        for (std::size_t i = 0; i < c.rows(); ++i) {
            for (std::size_t j = 0; j < c.cols(); ++j) {
                double sum = 0.0;
                double size = 0.0;
                for (std::size_t l = 0; l < a.cols(); ++l) {
                    sum += static_cast<double>(a(i, l)) * b(j, l);
                    size += std::abs(static_cast<double>(a(i, l)) * b(j, l));
                }
                // Error bound of a dot product: k roundings of the sum of absolute terms.
                ASSERT_NEAR(c(i, j), sum, tolerance * k * size) << n << " " << m << " " << k;
            }
        }
    }
}

TEST(Gemm, FloatProductIsTheNaiveOne) {
    expect_product_nt<float>(6e-8);
}
TEST(Gemm, DoubleProductIsTheNaiveOne) {
    expect_product_nt<double>(1.2e-16);
}

TEST(Gemm, PlainProductIsTheTransposedOneOfTheTranspose) {
    const auto a = random_matrix<float>(37, 50, 3);
    const auto b = random_matrix<float>(50, 6, 4);
    Matrix<float> c(37, 6);
    Matrix<float> expected(37, 6);
    gemm_nn(a, b, c);
    gemm_nt(a, transposed(b.view()).view(), expected);
    for (std::size_t i = 0; i < c.values().size(); ++i)
        EXPECT_NEAR(c.values()[i], expected.values()[i], 1e-5) << i;
}

TEST(Gemm, TransposedProductsAreTheNaiveOnes) {
    const auto a = random_matrix<float>(37, 5, 3);
    const auto b = random_matrix<float>(37, 6, 4);
    Matrix<float> c(5, 6);
    Matrix<float> s(5, 5);
    gemm_tn(a.view(), b.view(), c.view());
    syrk_tn(a.view(), s.view());
    const auto naive = [&](const Matrix<float>& right, std::size_t i, std::size_t j) {
        double sum = 0.0;
        for (std::size_t l = 0; l < 37; ++l) sum += double{a(l, i)} * right(l, j);
        return sum;
    };
    for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t j = 0; j < 6; ++j) ASSERT_NEAR(c(i, j), naive(b, i, j), 1e-4);
        for (std::size_t j = i; j < 5; ++j) ASSERT_NEAR(s(i, j), naive(a, i, j), 1e-4);
    }
}

// a bᵀ by every function, written to the first columns of wider matrices.
std::vector<Matrix<float>> products_of_rows(MatrixView<const float> a, const Matrix<float>& b) {
    const Matrix<float> transposed_b = transposed(b.view());
    std::vector<Matrix<float>> results(5, Matrix<float>(a.rows(), b.rows() + 3));
    const auto out = [&](std::size_t i) { return results[i].view().slice_cols(0, b.rows()); };
    gemm_nt(a, b, out(0));
    gemm_nn(a, transposed_b, out(1));
    gemm_nt_rows(a, b, {.threads = 1}, out(2));
    gemm_nt_rows(a, b, {.threads = 2}, out(3));
    gemm_rows(a, ops::packed(transposed_b), {.threads = 3}, out(4));
    return results;
}

TEST(Gemm, ARowHasTheSameBitsInAnyBatch) {
    for (const std::size_t k : {1U, 8U, 22U, 500U, 1000U}) {
        for (const std::size_t m : {1U, 15U, 91U, 704U}) {
            const auto b = random_matrix<float>(m, k, 7);
            auto a = random_matrix<float>(kTileRows + 40, k, 8);
            std::ranges::copy(a.row(3),
                              a.row(kTileRows - 1).begin());  // in the first and the last rows of a tile
            std::ranges::copy(a.row(3), a.row(kTileRows).begin());
            const auto all = products_of_rows(a, b).front();
            ASSERT_TRUE(same_bits(all.row(3), all.row(kTileRows - 1))) << "k " << k << " m " << m;
            ASSERT_TRUE(same_bits(all.row(3), all.row(kTileRows))) << "k " << k << " m " << m;
            for (const std::size_t rows : {1U, 2U, 5U, 12U, 33U, 255U, 257U, 293U}) {
                for (const auto& c : products_of_rows(a.view().slice_rows(3, rows), b)) {
                    for (std::size_t r = 0; r < rows; ++r)
                        ASSERT_TRUE(same_bits(c.row(r).first(m), all.row(3 + r).first(m)))
                            << "m " << m << " k " << k << " rows " << rows << " row " << r;
                }
            }
        }
    }
}

// A right factor that is packed in parts.
TEST(Gemm, LargeRightFactorsGiveTheSameBits) {
    const auto a = random_matrix<float>(kTileRows + 1, 2100, 1);
    const auto b = random_matrix<float>(2050, 2100, 2);
    const auto all = products_of_rows(a, b);
    Matrix<float> some(a.rows(), 7);
    gemm_nt(a, b.view().slice_rows(2000, 7), some);
    for (const auto& c : all) {
        for (std::size_t r = 0; r < a.rows(); ++r)
            ASSERT_TRUE(same_bits(c.row(r).subspan(2000, 7), some.row(r))) << r;
    }
}

TEST(Gemm, ASumWithoutTermsIsZero) {
    const Matrix<float> a(3, 0);
    const Matrix<float> b(5, 0);
    for (const auto& c : products_of_rows(a, b)) {
        for (std::size_t r = 0; r < 3; ++r) {
            for (const float v : c.row(r).first(5)) EXPECT_EQ(v, 0.0F);
        }
    }
}

// Sums over more rows than one chain has, and more columns than are packed at a time.
TEST(Gemm, TransposedProductsHaveTheBitsOfPlainOnes) {
    const auto a = random_matrix<float>(1024, 101, 1);
    const auto b = random_matrix<float>(1024, 203, 2);
    const Matrix<float> left = transposed(a.view());
    Matrix<float> c(101, 203);
    Matrix<float> expected(101, 203);
    gemm_tn(a, b, c);
    gemm_nn(left, b, expected);
    EXPECT_TRUE(same_bits(c.values(), expected.values()));
    Matrix<float> s(203, 203);
    Matrix<float> square(203, 203);
    syrk_tn(b, s);
    gemm_tn(b, b, square);
    for (std::size_t r = 0; r < 203; ++r)
        EXPECT_TRUE(same_bits(s.row(r).subspan(r), square.row(r).subspan(r))) << r;
}

// NaN in one row does not affect the other rows.
TEST(Gemm, NotANumberStaysInItsRow) {
    auto a = random_matrix<float>(40, 30, 1);
    a(17, 4) = std::numeric_limits<float>::quiet_NaN();
    const auto b = random_matrix<float>(9, 30, 2);
    for (const auto& c : products_of_rows(a, b)) {
        for (std::size_t r = 0; r < 40; ++r) {
            for (const float v : c.row(r).first(9)) EXPECT_EQ(std::isnan(v), r == 17) << r;
        }
    }
}

}  // namespace
}  // namespace imka

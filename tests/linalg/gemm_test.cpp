// Products against naive loops, and the guarantee of fixed tiles: the bits of a row do not depend on its
// position.
#include "imka/linalg/gemm.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
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
    for (auto& v : s.values()) v = 7.0F;
    gemm_tn(a.view(), b.view(), c.view());
    syrk_tn(a.view(), s.view());
    const auto naive = [&](const Matrix<float>& right, std::size_t i, std::size_t j) {
        double sum = 0.0;
        for (std::size_t l = 0; l < 37; ++l) sum += double{a(l, i)} * right(l, j);
        return sum;
    };
    for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t j = 0; j < 6; ++j) ASSERT_NEAR(c(i, j), naive(b, i, j), 1e-4);
        for (std::size_t j = 0; j < 5; ++j) {
            if (j < i) {
                ASSERT_EQ(s(i, j), 7.0F) << "below the diagonal nothing is written";
            } else {
                ASSERT_NEAR(s(i, j), naive(a, i, j), 1e-4);
            }
        }
    }
}

// The same row at every position of a tile: all results must have the same bits.
TEST(Gemm, BitsOfARowDoNotDependOnItsPlaceInTheTile) {
    for (const std::size_t k : {1U, 3U, 8U, 13U, 22U, 64U, 100U, 333U, 1000U}) {
        for (const std::size_t m : {1U, 2U, 15U, 16U, 26U, 91U, 256U, 411U, 1000U}) {
            const auto row = random_matrix<float>(1, k, 6);
            const auto b = random_matrix<float>(m, k, 7);
            auto a = random_matrix<float>(kTileRows, k, 8);
            Matrix<float> first(kTileRows, m);
            for (std::size_t place = 0; place < kTileRows; ++place) {
                std::memcpy(a.row(place).data(), row.data(), k * sizeof(float));
            }
            gemm_nt(std::as_const(a).view(), b.view(), first.view());
            for (std::size_t place = 1; place < kTileRows; ++place) {
                ASSERT_TRUE(same_bits(first.row(0), first.row(place)))
                    << "k " << k << " m " << m << " place " << place;
            }
        }
    }
}

// The contents of the other rows must not matter either.
TEST(Gemm, BitsOfARowDoNotDependOnItsNeighbours) {
    const auto b = random_matrix<float>(91, 22, 7);
    auto a = random_matrix<float>(kTileRows, 22, 8);
    Matrix<float> full(kTileRows, 91);
    gemm_nt(std::as_const(a).view(), b.view(), full.view());
    for (std::size_t r = 5; r < kTileRows; ++r) {
        for (auto& v : a.row(r)) v = 0.0F;
    }
    Matrix<float> part(kTileRows, 91);
    gemm_nt(std::as_const(a).view(), b.view(), part.view());
    for (std::size_t r = 0; r < 5; ++r) {
        EXPECT_TRUE(same_bits(full.row(r), part.row(r)));
    }
}

// Whether the same row has the same bits in every place of a tile.
bool is_even_tile(std::size_t m, std::size_t k) {
    const auto b = random_matrix<float>(m, k, 7);
    Matrix<float> a(kTileRows, k);
    const auto row = random_matrix<float>(1, k, 6);
    for (std::size_t r = 0; r < kTileRows; ++r) std::memcpy(a.row(r).data(), row.data(), k * sizeof(float));
    Matrix<float> c(kTileRows, m);
    gemm_nt(std::as_const(a).view(), b.view(), c.view());
    for (std::size_t r = 1; r < kTileRows; ++r) {
        if (!same_bits(c.row(0), c.row(r))) return false;
    }
    return true;
}

// Every row has the bits of the full tile it would be in, before and after a probe.
void expect_rows_of_tiles(std::size_t m, std::size_t k) {
    const auto b = random_matrix<float>(m, k, 7);
    const auto a = random_matrix<float>(2 * kTileRows, k, 8);
    Matrix<float> full(2 * kTileRows, m);
    for (const std::size_t first : {std::size_t{0}, kTileRows})
        gemm_nt(a.view().slice_rows(first, kTileRows), b.view(), full.view().slice_rows(first, kTileRows));
    for (const std::size_t rows : {1U, 1U, 1U, 3U, 5U, 8U, 9U, 17U, 33U, 33U, 100U, 129U, 255U, 300U}) {
        for (const std::size_t first : {0U, 3U}) {
            // A stride of its own, as a view of a wider matrix has.
            Matrix<float> c(rows, m + 3);
            gemm_nt_rows(a.view().slice_rows(first, rows), b.view(), {.threads = 2},
                         c.view().slice_cols(0, m));
            for (std::size_t r = 0; r < rows; ++r)
                ASSERT_TRUE(same_bits(c.row(r).first(m), full.row(first + r)))
                    << "m " << m << " k " << k << " rows " << rows << " row " << r;
        }
    }
}

TEST(GemmRows, HaveTheBitsOfAFullTile) {
    int shapes = 0;
    for (const std::size_t k : {1U, 2U, 13U, 22U, 64U, 256U, 1000U}) {
        for (const std::size_t m : {1U, 15U, 91U, 256U, 704U}) {
            // The Haswell and Zen kernels of OpenBLAS 0.3.21 round the last 4 rows of a tile differently in
            // some shapes: there is then no one result to compare with.
            if (!is_even_tile(m, k)) continue;
            expect_rows_of_tiles(m, k);
            ++shapes;
        }
    }
    EXPECT_GE(shapes, 7);
}

TEST(GemmRows, ManyThreadsMayAskForOneShape) {
    const auto b = random_matrix<float>(77, 29, 7);
    const auto a = random_matrix<float>(kTileRows, 29, 8);
    Matrix<float> full(kTileRows, 77);
    gemm_nt(a.view(), b.view(), full.view());
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
            for (std::size_t r = 0; r < 200; ++r) {
                Matrix<float> c(1, 77);
                gemm_nt_rows(a.view().slice_rows(r, 1), b.view(), {.threads = 1}, c.view());
                EXPECT_TRUE(same_bits(c.row(0), full.row(r)));
            }
        });
    }
}

// OpenBLAS chooses its kernels when a process begins: each set gets a process of its own, which runs the
// tests above. A name that the processor cannot run is skipped by OpenBLAS, which then takes another.
TEST(GemmRows, HaveTheBitsOfAFullTileWithOtherKernels) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    for (const std::string core : {"Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX"}) {
        const auto command = "OPENBLAS_CORETYPE=" + core + " '" + self +
                             "' --gtest_filter=GemmRows.HaveTheBitsOfAFullTile --gtest_brief=1";
        EXPECT_EQ(std::system(command.c_str()), 0) << core;
    }
}

}  // namespace
}  // namespace imka

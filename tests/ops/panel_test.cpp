// Products in panels on every instruction set against plain loops.
#include "imka/ops/panel/panel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "imka/base/random.hpp"
#include "support/instruction_sets.hpp"
#include "support/targets.hpp"

namespace imka::ops {
namespace {

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<float> m(rows, cols);
    for (std::size_t i = 0; i < m.values().size(); ++i)
        m.values()[i] = static_cast<float>(normal(seed, Stream::test, i));
    return m;
}

// One chain of fused multiply-additions, as documented.
float chain(const Matrix<float>& a, const Matrix<float>& b, std::size_t i, std::size_t j) {
    float sum = 0.0F;
    for (std::size_t k = 0; k < a.cols(); ++k) sum = std::fma(a(i, k), b(k, j), sum);
    return sum;
}

void expect_product(const Matrix<float>& a, const Matrix<float>& b, const Panels& c) {
    for (std::size_t i = 0; i < a.rows(); ++i) {
        for (std::size_t j = 0; j < b.cols(); ++j) {
            double bound = 0.0;
            for (std::size_t k = 0; k < a.cols(); ++k) bound += std::abs(double{a(i, k)} * b(k, j));
            const double tolerance = static_cast<double>(a.cols()) * 0x1p-24 * bound;
            EXPECT_NEAR(c(i, j), chain(a, b, i, j), tolerance) << i << " " << j;
        }
    }
}

struct Sizes {
    std::size_t n;
    std::size_t k;
    std::size_t m;
};
const std::vector<Sizes> kSizes = {{1, 1, 1},    {5, 3, 7},    {6, 16, 32},
                                   {12, 33, 31}, {13, 64, 65}, {25, 100, 17}};

TEST(Panel, ProductsEqualPlainLoops) {
    for_each_instruction_set([] {
        for (const auto& [n, k, m] : kSizes) {
            const auto a = normals(n, k, 1);
            const auto b = normals(k, m, 2);
            Panels c(n, m);
            multiply(a.view(), packed(b), c);
            expect_product(a, b, c);
            Panels same(n, m);
            multiply(packed(a), packed(b), same);
            for (std::size_t i = 0; i < n; ++i) {
                for (std::size_t j = 0; j < m; ++j) EXPECT_EQ(c(i, j), same(i, j));
            }
        }
    });
}

// The documented sum: chains of at most 448 multiply-additions, fused if the processor has them.
float sum_of_chains(const Matrix<float>& a, const Matrix<float>& b, std::size_t i, std::size_t j,
                    bool fused) {
    float sum = 0.0F;
    for (std::size_t k = 0, last = 0; k < a.cols(); k = last) {
        const std::size_t left = a.cols() - k;
        last = k + (left >= 896 ? 448 : left > 448 ? (left / 2 + 15) / 16 * 16 : left);
        float part = 0.0F;
        for (std::size_t l = k; l < last; ++l)
            part = fused ? std::fma(a(i, l), b(l, j), part) : part + a(i, l) * b(l, j);
        sum = k == 0 ? part : sum + part;
    }
    return sum;
}

TEST(Panel, ProductsInRowsHaveTheBitsOfPlainLoops) {
    on_each_instruction_set([](const char* name) {
        SCOPED_TRACE(name);
        const bool fused = std::string(name).starts_with("AVX") || std::string(name).starts_with("NEON");
        const std::size_t w = panel_width();
        for (const std::size_t n : {1U, 5U, 12U, 29U}) {
            for (const std::size_t k : {1U, 33U, 448U, 449U, 500U, 895U, 896U, 1000U}) {
                for (const std::size_t m : {std::size_t{1}, w - 1, w, w + 1, 2 * w + 3}) {
                    const auto a = normals(n, k, 1);
                    const auto b = normals(k, m, 2);
                    Matrix<float> c(n, m + 1);
                    for (auto& v : c.values()) v = 7.0F;
                    multiply(a, packed(b), c.view().slice_cols(0, m));
                    for (std::size_t i = 0; i < n; ++i) {
                        for (std::size_t j = 0; j < m; ++j)
                            ASSERT_EQ(c(i, j), sum_of_chains(a, b, i, j, fused)) << n << " " << k << " " << m;
                        ASSERT_EQ(c(i, m), 7.0F) << "written beyond the columns";
                    }
                }
            }
        }
    });
}

TEST(Panel, TransposedProductsHaveTheBitsOfPlainLoops) {
    on_each_instruction_set([](const char* name) {
        SCOPED_TRACE(name);
        const bool fused = std::string(name).starts_with("AVX") || std::string(name).starts_with("NEON");
        const std::size_t w = panel_width();
        for (const std::size_t k : {1U, 449U}) {
            for (const std::size_t n : {std::size_t{1}, w, 2 * w + 3}) {
                const auto a = normals(k, n, 1);
                Matrix<float> left(n, k);
                for (std::size_t i = 0; i < n; ++i) {
                    for (std::size_t l = 0; l < k; ++l) left(i, l) = a(l, i);
                }
                for (const std::size_t m : {std::size_t{1}, 3 * w - 1, 5 * w}) {
                    const auto b = normals(k, m, 2);
                    Matrix<float> c(n, m);
                    Matrix<float> same(n, m);
                    multiply_transposed(packed(a), packed(b), c);
                    multiply_transposed(a, packed(b), same);
                    for (std::size_t i = 0; i < n; ++i) {
                        for (std::size_t j = 0; j < m; ++j) {
                            ASSERT_EQ(c(i, j), sum_of_chains(left, b, i, j, fused))
                                << n << " " << k << " " << m;
                            ASSERT_EQ(same(i, j), c(i, j));
                        }
                    }
                }
                Matrix<float> upper(n, n);
                multiply_transposed_upper(packed(a), upper);
                for (std::size_t i = 0; i < n; ++i) {
                    for (std::size_t j = i; j < n; ++j)
                        ASSERT_EQ(upper(i, j), sum_of_chains(left, a, i, j, fused)) << n << " " << k;
                }
            }
        }
    });
}

TEST(Panel, ARowHasTheSameBitsAlone) {
    for_each_instruction_set([] {
        const auto a = normals(29, 40, 3);
        const auto right = normals(40, 50, 4);
        const auto b = packed(right);
        Panels all(29, 50);
        multiply(a.view(), b, all);
        for (std::size_t r = 0; r < a.rows(); ++r) {
            Panels one(1, 50);
            multiply(a.view().slice_rows(r, 1), b, one);
            for (std::size_t j = 0; j < 50; ++j) EXPECT_EQ(one(0, j), all(r, j));
        }
    });
}

TEST(Panel, ResultsGoToTheFirstRowsAndPanelsOfALargerOne) {
    for_each_instruction_set([] {
        const auto a = normals(5, 8, 5);
        const auto b = normals(8, 9, 6);
        Panels c(9, 9 + 2 * panel_width());
        for (std::size_t r = 0; r < c.rows(); ++r) {
            for (std::size_t j = 0; j < c.cols(); ++j) c(r, j) = 7.0F;
        }
        multiply(a.view(), packed(b), c);
        expect_product(a, b, c);
        for (std::size_t j = 0; j < c.cols(); ++j) EXPECT_EQ(c(5, j), 7.0F);
        EXPECT_EQ(c(0, c.cols() - 1), 7.0F);
    });
}

TEST(Panel, PackingTransposesScalesAndDropsRows) {
    for_each_instruction_set([] {
        auto m = normals(37, 5, 7);
        std::vector<unsigned char> keep(37, 1);
        keep[3] = 0;
        m(3, 2) = std::numeric_limits<float>::quiet_NaN();
        Panels rows(37, 5);
        Panels columns(5, 37);
        pack(m, 2.0F, keep, rows);
        pack_transposed(m, 2.0F, keep, columns);
        for (std::size_t r = 0; r < 37; ++r) {
            for (std::size_t c = 0; c < 5; ++c) {
                const float expected = r == 3 ? 0.0F : 2.0F * m(r, c);
                EXPECT_EQ(rows(r, c), expected);
                EXPECT_EQ(columns(c, r), expected);
            }
        }
        // Padding is 0.
        for (std::size_t c = 5; c < rows.width(); ++c) EXPECT_EQ(rows(0, c), 0.0F);
        for (std::size_t r = 37; r < columns.panels() * columns.width(); ++r) EXPECT_EQ(columns(0, r), 0.0F);
    });
}

}  // namespace
}  // namespace imka::ops

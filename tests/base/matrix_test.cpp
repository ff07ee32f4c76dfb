// Matrices and views: layout, slices, alignment, impossible sizes.
#include "imka/base/matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "imka/base/error.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

Matrix<float> counted(std::size_t rows, std::size_t cols) {
    Matrix<float> m(rows, cols);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) m(r, c) = static_cast<float>(10 * r + c);
    }
    return m;
}

TEST(Matrix, IsZeroAndRowMajor) {
    const Matrix<double> zero(2, 3);
    EXPECT_THAT(zero.values(), Each(0.0));
    const auto m = counted(2, 3);
    EXPECT_THAT(m.values(), ElementsAre(0, 1, 2, 10, 11, 12));
    EXPECT_THAT(m.row(1), ElementsAre(10, 11, 12));
}

TEST(Matrix, StartsOnACacheLine) {
    for (const std::size_t n : {1U, 3U, 17U}) {
        const Matrix<float> m(n, n);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(m.data()) % 64, 0U);
    }
}

TEST(Matrix, ResizeKeepsRowsAndZeroesNewOnes) {
    auto m = counted(2, 2);
    m.resize_rows(3);
    EXPECT_THAT(m.values(), ElementsAre(0, 1, 10, 11, 0, 0));
    m.resize_rows(1);
    EXPECT_EQ(m.rows(), 1U);
    EXPECT_THAT(m.values(), ElementsAre(0, 1));
}

float sum_of(MatrixView<const float> m) {
    float sum = 0.0F;
    for (std::size_t r = 0; r < m.rows(); ++r) sum = std::accumulate(m.row(r).begin(), m.row(r).end(), sum);
    return sum;
}

void clear(MatrixView<float> m) {
    for (std::size_t r = 0; r < m.rows(); ++r) std::ranges::fill(m.row(r), 0.0F);
}

TEST(Matrix, ConvertsToAView) {
    auto m = counted(2, 2);
    EXPECT_EQ(sum_of(m), 22.0F);
    EXPECT_EQ(sum_of(std::as_const(m)), 22.0F);
    clear(m);
    EXPECT_THAT(m.values(), Each(0.0F));
}

template <class M>
constexpr bool has_values = requires(M&& m) {
    static_cast<M&&>(m).values();
};
template <class M>
constexpr bool has_row = requires(M&& m) {
    static_cast<M&&>(m).row(0);
};

// A view, a row or the values of a temporary would dangle, so they do not compile.
TEST(Matrix, ATemporaryDoesNotConvertToAView) {
    using M = Matrix<float>;
    static_assert(std::is_convertible_v<M&, MatrixView<float>>);
    static_assert(std::is_convertible_v<M&, MatrixView<const float>>);
    static_assert(std::is_convertible_v<const M&, MatrixView<const float>>);
    static_assert(!std::is_convertible_v<const M&, MatrixView<float>>);
    static_assert(!std::is_convertible_v<M, MatrixView<float>>);
    static_assert(!std::is_convertible_v<M, MatrixView<const float>>);
    static_assert(!std::is_convertible_v<const M, MatrixView<const float>>);
    static_assert(has_values<M&> && has_row<const M&>);
    static_assert(!has_values<M> && !has_row<M>);
}

TEST(Matrix, EqualityComparesShapeAndValues) {
    EXPECT_EQ(counted(2, 3), counted(2, 3));
    EXPECT_FALSE(Matrix<float>(2, 3) == Matrix<float>(3, 2));
    EXPECT_FALSE(counted(2, 3) == Matrix<float>(2, 3));
}

TEST(Matrix, RefusesASizeThatOverflowsInBytes) {
    EXPECT_THROW(AlignedAllocator<double>().allocate(std::numeric_limits<std::size_t>::max() / 4),
                 std::bad_alloc);
}

TEST(MatrixView, SlicesKeepTheStrideAndShareMemory) {
    auto m = counted(4, 5);
    const auto block = m.view().slice_rows(1, 2).slice_cols(2, 3);
    EXPECT_EQ(block.rows(), 2U);
    EXPECT_EQ(block.cols(), 3U);
    EXPECT_EQ(block.stride(), 5U);
    EXPECT_THAT(block.row(1), ElementsAre(22, 23, 24));
    block(0, 0) = -1.0F;
    EXPECT_EQ(m(1, 2), -1.0F);
    const MatrixView<const float> constant = block;
    EXPECT_EQ(constant(0, 0), -1.0F);
}

TEST(MatrixView, MayBeEmpty) {
    const auto m = counted(2, 2);
    EXPECT_EQ(m.view().slice_rows(2, 0).rows(), 0U);
    EXPECT_EQ(MatrixView<float>().cols(), 0U);
}

TEST(CheckFitsMemory, NamesWhatIsTooLarge) {
    check_fits_memory(10.0, 10.0, sizeof(float), "Ω");
    for (const double rows : {1e12, std::numeric_limits<double>::infinity(), std::nan("")}) {
        try {
            check_fits_memory(rows, 1e6, sizeof(float), "Ω");
            ADD_FAILURE() << "no error for " << rows;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::bad_config);
            EXPECT_THAT(e.what(), AllOf(HasSubstr("Ω of "), HasSubstr("GB of this machine")));
        }
    }
}

}  // namespace
}  // namespace imka

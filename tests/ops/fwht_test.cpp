// The fast Walsh-Hadamard transform against its definition.
#include "imka/ops/fwht/fwht.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/ops/fwht/fwht_plain.hpp"
#include "support/fwht_reference.hpp"
#include "support/targets.hpp"

namespace {

template <class T>
std::vector<T> random_values(std::size_t n) {
    std::vector<float> g(n);
    imka::fill_normal(n, imka::Stream::test, 0, g);
    return {g.begin(), g.end()};
}

template <class T>
std::vector<double> reference(const std::vector<T>& in) {
    std::vector<double> out(in.size());
    imka::fwht_reference(std::vector<double>(in.begin(), in.end()), out);
    return out;
}

template <class T>
class FwhtOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(FwhtOf, Types);

// The bound in the header plus the rounding of the reference (n 2^-53 sum |in|).
TYPED_TEST(FwhtOf, AgreesWithTheDefinitionWithinItsBound) {
    for (std::size_t n = 1; n <= 2048; n *= 2) {
        const auto in = random_values<TypeParam>(n);
        auto out = in;
        imka::fwht(std::span<TypeParam>(out));
        const auto want = reference(in);
        double sum = 0.0;
        for (const auto v : in) sum += std::abs(static_cast<double>(v));
        const double unit = static_cast<double>(std::numeric_limits<TypeParam>::epsilon()) / 2.0;
        const double bound =
            sum * (unit * static_cast<double>(std::bit_width(n)) + static_cast<double>(n) * 0x1p-53);
        for (std::size_t k = 0; k < n; ++k) ASSERT_NEAR(out[k], want[k], bound) << "n " << n << " k " << k;
        if (n > 2) {
            EXPECT_NE(*std::min_element(want.begin(), want.end()),
                      *std::max_element(want.begin(), want.end()));
        }
    }
}

TYPED_TEST(FwhtOf, WorksOnUnalignedMemory) {
    const auto in = random_values<TypeParam>(64);
    auto aligned = in;
    imka::fwht(std::span<TypeParam>(aligned));
    for (std::size_t shift = 1; shift < 8; ++shift) {
        std::vector<TypeParam> padded(64 + shift);
        std::copy(in.begin(), in.end(), padded.begin() + static_cast<std::ptrdiff_t>(shift));
        imka::fwht(std::span<TypeParam>(padded).subspan(shift));
        EXPECT_TRUE(
            std::equal(aligned.begin(), aligned.end(), padded.begin() + static_cast<std::ptrdiff_t>(shift)));
    }
}

TYPED_TEST(FwhtOf, OneNanReachesEveryOutput) {
    auto values = random_values<TypeParam>(32);
    values[13] = std::numeric_limits<TypeParam>::quiet_NaN();
    imka::fwht(std::span<TypeParam>(values));
    for (const auto v : values) EXPECT_TRUE(std::isnan(v));
}

TYPED_TEST(FwhtOf, OneInfinityReachesEveryOutputWithItsSign) {
    std::vector<TypeParam> values(16, TypeParam{1});
    values[5] = std::numeric_limits<TypeParam>::infinity();
    imka::fwht(std::span<TypeParam>(values));
    for (std::size_t k = 0; k < 16; ++k) {
        EXPECT_TRUE(std::isinf(values[k]));
        EXPECT_EQ(values[k] < 0, std::popcount(k & 5U) % 2 == 1);
    }
}

TYPED_TEST(FwhtOf, RefusesSizesThatAreNotPowersOfTwo) {
    for (const std::size_t n : {0U, 3U, 6U, 12U, 1000U}) {
        std::vector<TypeParam> values(n, TypeParam{1});
        EXPECT_THROW(imka::fwht(std::span<TypeParam>(values)), imka::Error) << n;
        EXPECT_EQ(values, std::vector<TypeParam>(n, TypeParam{1}));
    }
}

TEST(Fwht, IsItsOwnInverseUpToScale) {
    std::vector<double> values(256);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 17) - 8.0;
    auto twice = values;
    imka::fwht(std::span<double>(twice));
    imka::fwht(std::span<double>(twice));
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(twice[i], 256.0 * values[i]);
}

// The four Walsh functions of length 4 in Sylvester order.
TEST(Fwht, FollowsSylvestersOrder) {
    const double rows[4][4] = {{1, 1, 1, 1}, {1, -1, 1, -1}, {1, 1, -1, -1}, {1, -1, -1, 1}};
    for (std::size_t j = 0; j < 4; ++j) {
        std::vector<double> unit(4, 0.0);
        unit[j] = 1.0;
        imka::fwht(std::span<double>(unit));
        for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(unit[k], rows[k][j]);
    }
}

// Equal values including the sign of zero; NaN at the same positions, with any bits.
void expect_same_bits(std::span<const float> got, std::span<const float> want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
        if (std::isnan(want[k])) {
            ASSERT_TRUE(std::isnan(got[k])) << k;
        } else {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(got[k]), std::bit_cast<std::uint32_t>(want[k])) << k;
        }
    }
}

// Same bits as the plain loop on every instruction set and at every alignment.
TEST(FwhtOnEveryInstructionSet, HasTheBitsOfThePlainLoop) {
    for_each_instruction_set([] {
        for (std::size_t n = 1; n <= (1U << 14U); n *= 2) {
            for (const std::size_t shift : {0U, 1U, 3U, 8U}) {
                SCOPED_TRACE(n);
                const auto in = random_values<float>(n);
                auto want = in;
                imka::plain::ascend(want.data(), n);
                std::vector<float> got(n + shift + 1, 7.0F);
                std::copy(in.begin(), in.end(), got.begin() + static_cast<std::ptrdiff_t>(shift));
                imka::fwht(std::span(got).subspan(shift, n));
                expect_same_bits(std::span(got).subspan(shift, n), want);
                ASSERT_EQ(got.back(), 7.0F) << "written beyond the end";
                ASSERT_TRUE(std::all_of(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(shift),
                                        [](float v) { return v == 7.0F; }));
            }
        }
    });
}

TEST(FwhtOnEveryInstructionSet, HasTheBitsOfThePlainLoopBeyondTheCaches) {
    const auto in = random_values<float>(std::size_t{1} << 21U);
    auto want = in;
    imka::plain::ascend(want.data(), want.size());
    for_each_instruction_set([&] {
        for (const unsigned level : {15U, 16U, 17U, 18U, 21U}) {
            auto got = in;
            const std::size_t n = std::size_t{1} << level;
            imka::fwht(std::span(got).first(n));
            if (n == want.size()) {
                expect_same_bits(got, want);
            } else {
                auto part = std::vector<float>(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(n));
                imka::plain::ascend(part.data(), n);
                expect_same_bits(std::span(got).first(n), part);
            }
        }
    });
}

TEST(FwhtOnEveryInstructionSet, AgreesWithTheDefinitionWithinItsBound) {
    for_each_instruction_set([] {
        for (std::size_t n = 1; n <= 4096; n *= 8) {
            const auto in = random_values<float>(n);
            auto out = in;
            imka::fwht(std::span(out));
            const auto want = reference(in);
            double sum = 0.0;
            for (const auto v : in) sum += std::abs(static_cast<double>(v));
            const double bound =
                sum * (0x1p-24 * static_cast<double>(std::bit_width(n)) + static_cast<double>(n) * 0x1p-53);
            for (std::size_t k = 0; k < n; ++k) ASSERT_NEAR(out[k], want[k], bound) << "n " << n;
        }
    });
}

TEST(FwhtOnEveryInstructionSet, TreatsNanInfinityAndZeroLikeThePlainLoop) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for_each_instruction_set([] {
        for (std::size_t n = 1; n <= 1024; n *= 2) {
            for (const float special : {kInf, -kInf, kNan, -0.0F, 1e-45F, 3e38F}) {
                for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
                    std::vector<float> in(n, -0.0F);
                    in[at] = special;
                    in[n / 3] = special;
                    auto want = in;
                    imka::plain::ascend(want.data(), n);
                    imka::fwht(std::span(in));
                    expect_same_bits(in, want);
                }
            }
        }
    });
}

TEST(FwhtRows, HasTheBitsOfEveryRowAlone) {
    for_each_instruction_set([] {
        for (const std::size_t n : {1U, 2U, 4U, 8U, 16U, 32U, 128U, 256U, 1024U}) {
            for (const std::size_t rows : {0U, 1U, 3U, 17U, 65U, 256U}) {
                for (const std::size_t gap : {0U, 5U}) {
                    auto values = random_values<float>(rows * (n + gap) + 1);
                    auto want = values;
                    for (std::size_t r = 0; r < rows; ++r) imka::plain::ascend(&want[r * (n + gap)], n);
                    imka::fwht_rows({values.data(), rows, n, n + gap});
                    SCOPED_TRACE(n);
                    expect_same_bits(values, want);
                }
            }
        }
    });
}

TEST(FwhtRows, RefusesSizesThatAreNotPowersOfTwo) {
    std::vector<float> values(24, 1.0F);
    EXPECT_THROW(imka::fwht_rows({values.data(), 2, 12}), imka::Error);
    EXPECT_EQ(values, std::vector<float>(24, 1.0F));
}

imka::SignHadamard random_matrix(std::size_t d, std::size_t m) {
    const std::size_t n = std::bit_ceil(d);
    const std::size_t size = imka::padded_outputs(n, m);
    const auto signs = [&](std::uint64_t seed) {
        std::vector<float> out(size);
        for (std::size_t i = 0; i < size; ++i)
            out[i] = imka::random_bits(seed, imka::Stream::test, i) % 2 == 0 ? 1.0F : -0.5F;
        return out;
    };
    return {.d = d,
            .n = n,
            .m = m,
            .first = signs(1),
            .second = signs(2),
            .third = signs(3),
            .scale = random_values<float>(size)};
}

TEST(SignHadamard, HasTheBitsOfThePlainLoopsOnEveryInstructionSet) {
    for (const std::size_t d :
         {1U, 2U, 3U, 7U, 16U, 20U, 64U, 100U, 200U, 257U, 900U, 1025U, 4000U, 4097U, 20000U}) {
        for (const std::size_t m : {1U, 40U, 256U, 700U, 5000U}) {
            const auto matrix = random_matrix(d, m);
            const std::size_t rows = d < 300 ? 70 : 5;
            auto x = random_values<float>(rows * d);
            if (rows > 3) x[3 * d] = std::numeric_limits<float>::infinity();
            std::vector<float> want(rows * m);
            imka::plain::project(matrix, {x.data(), rows, d}, {want.data(), rows, m});
            for_each_instruction_set([&] {
                SCOPED_TRACE(d);
                std::vector<float> got(rows * m + 1, 7.0F);
                imka::project(matrix, {x.data(), rows, d}, {got.data(), rows, m});
                expect_same_bits(std::span(got).first(rows * m), want);
                ASSERT_EQ(got.back(), 7.0F) << "written beyond the end";
            });
        }
    }
}

// diag(scale) H diag(third) H diag(second) H diag(first) by the definition of H, in double.
TEST(SignHadamard, IsTheProductOfItsFactors) {
    const std::size_t d = 11;
    const std::size_t m = 37;
    const auto matrix = random_matrix(d, m);
    const auto x = random_values<float>(d);
    std::vector<float> got(m);
    imka::project(matrix, {x.data(), 1, d}, {got.data(), 1, m});
    for (std::size_t i = 0; i < m; ++i) {
        const std::size_t first = i / 16 * 16;
        std::vector<double> v(16, 0.0);
        for (std::size_t j = 0; j < d; ++j) v[j] = static_cast<double>(x[j]);
        for (const auto* diagonal : {&matrix.first, &matrix.second, &matrix.third}) {
            for (std::size_t j = 0; j < 16; ++j) v[j] *= static_cast<double>((*diagonal)[first + j]);
            v = reference(v);
        }
        // Three transforms of 4 levels and the scale; rows are at most 64 |scale| long.
        double length = 0.0;
        for (const float e : x) length += static_cast<double>(e) * static_cast<double>(e);
        const auto scale = static_cast<double>(matrix.scale[i]);
        EXPECT_NEAR(got[i], scale * v[i - first], 14 * 0x1p-24 * 64.0 * std::abs(scale) * std::sqrt(length));
    }
}

}  // namespace

// The fast Walsh-Hadamard transform against its definition.
#include "imka/ops/fwht/fwht.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/ops/fwht/fwht_reference.hpp"

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

// The bound of the header, and the reference's own rounding (n 2^-53 sum |in|).
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

TYPED_TEST(FwhtOf, SizesThatAreNoPowerOfTwoAreRefused) {
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

// The four Walsh functions of length 4 in Sylvester's order.
TEST(Fwht, FollowsSylvestersOrder) {
    const double rows[4][4] = {{1, 1, 1, 1}, {1, -1, 1, -1}, {1, 1, -1, -1}, {1, -1, -1, 1}};
    for (std::size_t j = 0; j < 4; ++j) {
        std::vector<double> unit(4, 0.0);
        unit[j] = 1.0;
        imka::fwht(std::span<double>(unit));
        for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(unit[k], rows[k][j]);
    }
}

}  // namespace

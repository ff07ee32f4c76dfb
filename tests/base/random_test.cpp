// Random numbers: published values of Philox, accuracy, distributions at 5 sigma, and independence of blocks
// and threads.
#include "imka/base/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <vector>

#include "imka/base/parallel.hpp"

namespace imka {
namespace {

constexpr std::uint64_t kSeed = 20240917;

std::uint32_t bits(float x) {
    return std::bit_cast<std::uint32_t>(x);
}

std::vector<float> normals(std::uint64_t seed, std::size_t n) {
    std::vector<float> x(n);
    fill_normal(seed, Stream::test, 0, x);
    return x;
}

double moment(std::span<const float> x, int power) {
    double sum = 0.0;
    for (const double v : x) sum += std::pow(v, power);
    return sum / static_cast<double>(x.size());
}

// Even moment of the standard normal cut at +-bound: m(k) = (k-1) m(k-2) - 2 b^(k-1) phi(b) / Z, by parts.
double truncated_moment(int k, double bound) {
    if (k == 0) return 1.0;
    const double phi = std::exp(-0.5 * bound * bound) / std::sqrt(2.0 * std::numbers::pi);
    const double z = std::erf(bound / std::numbers::sqrt2);
    return (k - 1) * truncated_moment(k - 2, bound) - 2.0 * std::pow(bound, k - 1) * phi / z;
}

double normal_cdf(double x) {
    return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

// Deviation of counts from a uniform distribution, in standard deviations of the chi-square statistic.
double chi_square_sigmas(std::span<const std::size_t> counts) {
    const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
    const double share = total / static_cast<double>(counts.size());
    double chi = 0.0;
    for (const auto c : counts) {
        const double gap = static_cast<double>(c) - share;
        chi += gap * gap / share;
    }
    const auto freedom = static_cast<double>(counts.size() - 1);
    return (chi - freedom) / std::sqrt(2.0 * freedom);
}

// Known answers published with the Random123 library for philox4x32, 10 rounds.
TEST(Philox, GivesThePublishedAnswers) {
    EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
              (PhiloxBlock{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
    const std::uint32_t ones = 0xffffffffU;
    EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
              (PhiloxBlock{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
    EXPECT_EQ(philox4x32_10({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
              (PhiloxBlock{0xd16cfe09U, 0x94fdcceb, 0x5001e420U, 0x24126ea1U}));
}

TEST(RandomBits, AreWordsOfTheDocumentedCounter) {
    const std::uint64_t seed = 0x0123456789abcdefU;
    const std::uint64_t index = (std::uint64_t{5} << 34U) + std::uint64_t{4} * 7 + 2;
    const auto block =
        philox4x32_10({7, 5, static_cast<std::uint32_t>(Stream::omega_sign), 0}, {0x89abcdefU, 0x01234567U});
    EXPECT_EQ(random_bits(seed, Stream::omega_sign, index), block[2]);
}

TEST(RandomBits, DifferBySeedStreamAndIndex) {
    const auto base = random_bits(1, Stream::test, 0);
    EXPECT_NE(base, random_bits(2, Stream::test, 0));
    EXPECT_NE(base, random_bits(std::uint64_t{1} << 32U | 1U, Stream::test, 0));
    EXPECT_NE(base, random_bits(1, Stream::split, 0));
    EXPECT_NE(base, random_bits(1, Stream::test, 1));
    EXPECT_NE(base, random_bits(1, Stream::test, std::uint64_t{1} << 34U));
}

TEST(Uniform, IsTheWordPlusAHalfAndNeverZeroOrOne) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
        const double u = uniform(kSeed, Stream::test, i);
        EXPECT_EQ(std::ldexp(u, 32) - 0.5, static_cast<double>(random_bits(kSeed, Stream::test, i)));
        EXPECT_GT(u, 0.0);
        EXPECT_LT(u, 1.0);
    }
}

// n = 1e6.
TEST(Uniform, HasTheMomentsAndSharesOfItsLaw) {
    constexpr std::size_t n = 1'000'000;
    double sum = 0.0;
    double squares = 0.0;
    std::vector<std::size_t> counts(256);
    for (std::size_t i = 0; i < n; ++i) {
        const double u = uniform(kSeed, Stream::test, i);
        sum += u;
        squares += (u - 0.5) * (u - 0.5);
        ++counts[static_cast<std::size_t>(u * 256.0)];
    }
    EXPECT_NEAR(sum / n, 0.5, 5.0 * std::sqrt(1.0 / 12.0 / n));
    EXPECT_NEAR(squares / n, 1.0 / 12.0, 5.0 * std::sqrt((1.0 / 80.0 - 1.0 / 144.0) / n));
    EXPECT_LT(std::abs(chi_square_sigmas(counts)), 5.0);
}

// n = 1e6 pairs: neighbours must not be correlated.
TEST(Uniform, NeighboursAreUncorrelated) {
    constexpr std::size_t n = 1'000'000;
    for (const std::size_t lag : {1U, 2U, 3U, 4U}) {
        double sum = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            sum += (uniform(kSeed, Stream::test, i) - 0.5) * (uniform(kSeed, Stream::test, i + lag) - 0.5);
        }
        EXPECT_NEAR(sum / n, 0.0, 5.0 / 12.0 / std::sqrt(n)) << "lag " << lag;
    }
}

// n = 7e5.
TEST(UniformInt, GivesEachValueItsShare) {
    std::vector<std::size_t> counts(7);
    for (std::uint64_t i = 0; i < 700'000; ++i) ++counts.at(uniform_int(kSeed, Stream::test, i, 7));
    EXPECT_LT(chi_square_sigmas(counts), 5.0);
}

TEST(UniformInt, IsTheHighHalfOfTheProductWithTheTwoWords) {
    for (const std::uint64_t n :
         {std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{1} << 32U, ~std::uint64_t{0}}) {
        for (std::uint64_t i = 0; i < 100; ++i) {
            const std::uint64_t low = random_bits(kSeed, Stream::test, 2 * i);
            const std::uint64_t high = random_bits(kSeed, Stream::test, 2 * i + 1);
            __extension__ using Wide = unsigned __int128;
            const auto product = static_cast<Wide>(high << 32U | low) * n;
            EXPECT_EQ(uniform_int(kSeed, Stream::test, i, n), static_cast<std::uint64_t>(product >> 64U));
        }
    }
}

// 2^23 values: many have a radius below 1e-3, where rounding a word near 2^32 to float would be visible.
TEST(Normal, IsTheExactTransformOfTheWordsWithinTheStatedError) {
    constexpr std::size_t n = std::size_t{1} << 23U;
    const auto x = normals(kSeed, n);
    double worst = 0.0;
    for (std::size_t i = 0; i < n; i += 4) {
        const auto b = philox4x32_10({static_cast<std::uint32_t>(i / 4), 0, 0, 0}, {kSeed, 0});
        for (std::size_t k = 0; k < 4; k += 2) {
            const double radius = std::sqrt(-2.0 * std::log((b[k] + 0.5) * 0x1p-32));
            const double angle = 2.0 * std::numbers::pi * (b[k + 1] * 0x1p-32);
            const double c = radius * std::cos(angle);
            const double s = radius * std::sin(angle);
            worst = std::max({worst, std::abs(x[i + k] - c) / (1.0 + std::abs(c)),
                              std::abs(x[i + k + 1] - s) / (1.0 + std::abs(s))});
        }
    }
    EXPECT_LE(worst, 4e-7);
    EXPECT_GT(worst, 0.0);
}

// n = 4e6. The variance of x^k is m(2k) - m(k)^2; m(2k) of the standard normal is (2k-1)!!.
TEST(Normal, HasTheMomentsOfItsLaw) {
    constexpr std::size_t n = 4'000'000;
    const auto x = normals(kSeed, n);
    EXPECT_NEAR(moment(x, 1), 0.0, 5.0 * std::sqrt(1.0 / n));
    EXPECT_NEAR(moment(x, 2), 1.0, 5.0 * std::sqrt(2.0 / n));
    EXPECT_NEAR(moment(x, 3), 0.0, 5.0 * std::sqrt(15.0 / n));
    EXPECT_NEAR(moment(x, 4), 3.0, 5.0 * std::sqrt(96.0 / n));
}

// n = 1e6. P(sqrt(n) D > 2.745) = 2 exp(-2 * 2.745^2) = 5.7e-7, the two-sided 5 sigma level.
TEST(Normal, IsCloseToItsDistributionFunction) {
    constexpr std::size_t n = 1'000'000;
    auto x = normals(kSeed + 1, n);
    std::sort(x.begin(), x.end());
    double distance = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        const double f = normal_cdf(x[i]);
        distance = std::max({distance, f - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - f});
    }
    EXPECT_LT(distance * std::sqrt(n), 2.745);
}

// n = 4e6; the count beyond t is binomial.
TEST(Normal, HasTheTailsOfItsLaw) {
    constexpr std::size_t n = 4'000'000;
    const auto x = normals(kSeed, n);
    for (const double t : {1.0, 2.0, 3.0, 4.0}) {
        const double p = 2.0 * normal_cdf(-t);
        const auto count = std::count_if(x.begin(), x.end(), [t](float v) { return std::abs(v) > t; });
        EXPECT_NEAR(static_cast<double>(count), n * p, 5.0 * std::sqrt(n * p * (1.0 - p))) << "beyond " << t;
    }
    EXPECT_LE(std::abs(*std::max_element(x.begin(), x.end())), 6.77F);
}

// n = 1e6 pairs: the cosine and the sine of one pair share a radius but not a sign or a square.
TEST(Normal, PairsAreUncorrelatedAlsoInTheirSquares) {
    constexpr std::size_t n = 1'000'000;
    const auto x = normals(kSeed, 2 * n);
    double product = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        const double a = x[2 * i];
        const double b = x[2 * i + 1];
        product += a * b;
        squares += (a * a - 1.0) * (b * b - 1.0);
    }
    EXPECT_NEAR(product / n, 0.0, 5.0 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 0.0, 5.0 * 2.0 / std::sqrt(n));
}

TEST(FillNormal, HasTheBitsOfNormalForAnySplit) {
    constexpr std::size_t n = 103;
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{3}, (std::uint64_t{1} << 34U) - 2}) {
        for (const std::size_t piece : {1U, 2U, 3U, 5U, 7U, 64U, 103U}) {
            std::vector<float> x(n, -99.0F);
            for (std::size_t i = 0; i < n; i += piece) {
                fill_normal(kSeed, Stream::test, first + i, std::span(x).subspan(i, std::min(piece, n - i)));
            }
            for (std::size_t i = 0; i < n; ++i) {
                ASSERT_EQ(bits(x[i]), bits(normal(kSeed, Stream::test, first + i))) << i << ' ' << piece;
            }
        }
    }
}

TEST(FillNormal, WritesNothingIntoAnEmptySpan) {
    std::vector<float> x = {1.0F};
    fill_normal(kSeed, Stream::test, 2, std::span(x).first(0));
    EXPECT_EQ(x[0], 1.0F);
}

TEST(FillNormal, HasTheSameBitsForAnyThreadCount) {
    constexpr std::size_t n = 10'007;
    constexpr std::size_t piece = 97;
    const auto whole = normals(kSeed, n);
    for (const int threads : {1, 2, 7}) {
        std::vector<float> x(n);
        parallel_for({.threads = threads}, (n + piece - 1) / piece, [&](std::size_t t) {
            const std::size_t i = t * piece;
            fill_normal(kSeed, Stream::test, i, std::span(x).subspan(i, std::min(piece, n - i)));
        });
        EXPECT_EQ(x, whole) << threads << " threads";
    }
}

class TruncatedNormal : public testing::TestWithParam<float> {};

// n = 1e6.
TEST_P(TruncatedNormal, StaysInsideAndHasTheMomentsOfItsLaw) {
    constexpr std::size_t n = 1'000'000;
    const float bound = GetParam();
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = truncated_normal(kSeed, Stream::test, i, bound);
    EXPECT_TRUE(std::all_of(x.begin(), x.end(), [bound](float v) { return std::abs(v) <= bound; }));
    const auto m = [bound](int k) { return truncated_moment(k, bound); };
    EXPECT_NEAR(moment(x, 1), 0.0, 5.0 * std::sqrt(m(2) / n));
    EXPECT_NEAR(moment(x, 2), m(2), 5.0 * std::sqrt((m(4) - m(2) * m(2)) / n));
    EXPECT_NEAR(moment(x, 3), 0.0, 5.0 * std::sqrt(m(6) / n));
    EXPECT_NEAR(moment(x, 4), m(4), 5.0 * std::sqrt((m(8) - m(4) * m(4)) / n));
}

// Same level as the test of the normal law; a clipped law has point masses at the bounds and fails.
TEST_P(TruncatedNormal, IsCloseToItsDistributionFunction) {
    constexpr std::size_t n = 300'000;
    const float bound = GetParam();
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = truncated_normal(kSeed + 1, Stream::test, i, bound);
    std::sort(x.begin(), x.end());
    const double low = normal_cdf(-bound);
    const double mass = normal_cdf(bound) - low;
    double distance = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        const double f = (normal_cdf(x[i]) - low) / mass;
        distance = std::max({distance, f - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - f});
    }
    EXPECT_LT(distance * std::sqrt(n), 2.745);
}

TEST_P(TruncatedNormal, HasTheSameBitsForAnyThreadCount) {
    constexpr std::size_t n = 5'003;
    const float bound = GetParam();
    std::vector<float> alone(n);
    for (std::size_t i = n; i-- > 0;) alone[i] = truncated_normal(kSeed, Stream::test, i, bound);
    for (const int threads : {1, 2, 7}) {
        std::vector<float> x(n);
        parallel_for({.threads = threads}, n,
                     [&](std::size_t i) { x[i] = truncated_normal(kSeed, Stream::test, i, bound); });
        EXPECT_EQ(x, alone) << threads << " threads";
    }
}

INSTANTIATE_TEST_SUITE_P(Bounds, TruncatedNormal, testing::Values(0.5F, 1.0F, 3.0F));

TEST(Permutation, HoldsEachNumberOnce) {
    for (const std::uint32_t n : {0U, 1U, 2U, 3U, 1000U}) {
        auto p = permutation(kSeed, Stream::split, n);
        ASSERT_EQ(p.size(), n);
        std::sort(p.begin(), p.end());
        for (std::uint32_t i = 0; i < n; ++i) EXPECT_EQ(p[i], i);
    }
}

TEST(Permutation, IsAShuffleByUniformIntegers) {
    for (const std::uint32_t n : {0U, 1U, 2U, 3U, 4U, 5U, 1000U, 1001U}) {
        std::vector<std::uint32_t> expected(n);
        std::iota(expected.begin(), expected.end(), 0U);
        for (std::uint32_t i = n; i > 1; --i)
            std::swap(expected[i - 1], expected[uniform_int(kSeed, Stream::split, i, i)]);
        EXPECT_EQ(permutation(kSeed, Stream::split, n), expected) << n;
    }
}

TEST(Permutation, DependsOnTheSeed) {
    EXPECT_EQ(permutation(1, Stream::split, 50), permutation(1, Stream::split, 50));
    EXPECT_NE(permutation(1, Stream::split, 50), permutation(2, Stream::split, 50));
}

// n = 48,000 seeds: all 24 orders of 4 elements are equally likely.
TEST(Permutation, MakesEachOrderEquallyOften) {
    std::vector<std::size_t> orders(256);
    std::vector<std::size_t> first(4);
    std::vector<std::size_t> last(4);
    for (std::uint64_t seed = 0; seed < 48'000; ++seed) {
        const auto p = permutation(seed, Stream::split, 4);
        ++orders[((p[0] * 4 + p[1]) * 4 + p[2]) * 4 + p[3]];
        ++first[p[0]];
        ++last[p[3]];
    }
    std::erase(orders, 0U);
    ASSERT_EQ(orders.size(), 24U);
    EXPECT_LT(chi_square_sigmas(orders), 5.0);
    EXPECT_LT(chi_square_sigmas(first), 5.0);
    EXPECT_LT(chi_square_sigmas(last), 5.0);
}

// These values pin the format: saved recipes and records depend on them, and they must be the same on every
// machine. Changing them changes the format and needs an entry in the changelog.
TEST(Golden, FirstValuesDoNotMove) {
    const std::vector<std::uint32_t> normal_bits = {0x3f88a6cbU, 0xbed9c6b5U, 0xc0178cdfU, 0xbe6d0d87U,
                                                    0x3ecf57cfU, 0xbf0d6118U, 0xbf887d8aU, 0x3f061779U};
    for (std::size_t i = 0; i < normal_bits.size(); ++i) {
        EXPECT_EQ(bits(normal(0, Stream::omega_normal, i)), normal_bits[i]);
        EXPECT_EQ(bits(truncated_normal(0, Stream::omega_normal, i, 3.0F)), normal_bits[i]);
    }
    const std::vector<std::uint32_t> narrow_bits = {0xbe048b49U, 0xbe560c26U, 0xbe6817b2U, 0x3e09a1baU};
    const std::vector<std::uint32_t> words = {0xf2237f09U, 0x8f1a3087U, 0x06397290U, 0x13ce167aU};
    const std::vector<std::uint64_t> below_million = {558993, 77363, 308838, 894245};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(bits(truncated_normal(0, Stream::omega_normal, i, 0.5F)), narrow_bits[i]);
        EXPECT_EQ(random_bits(0, Stream::omega_sign, i), words[i]);
        EXPECT_EQ(uniform_int(0, Stream::omega_sign, i, 1'000'000), below_million[i]);
    }
    EXPECT_THAT(permutation(0, Stream::split, 8), testing::ElementsAre(2, 7, 6, 4, 1, 5, 3, 0));
}

}  // namespace
}  // namespace imka

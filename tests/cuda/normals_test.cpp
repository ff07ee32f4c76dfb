// Every variant of fill_normal has the bits of the reference.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "imka/ops/normals/variants.hpp"

namespace imka {
namespace {

class Normals : public testing::TestWithParam<ops::NormalsVariant> {};

TEST_P(Normals, HaveTheBitsOfTheReference) {
    if (!GetParam().available()) GTEST_SKIP() << "needs a CUDA GPU";
    for (const std::uint64_t seed : {0ULL, 42ULL, 0xfedcba9876543210ULL}) {
        for (const auto stream : {Stream::test, Stream::chip_adc_noise}) {
            for (const std::uint64_t first : {0ULL, 1ULL, 6ULL, (1ULL << 34U) - 70ULL, 1ULL << 50U}) {
                for (const std::size_t size : {1U, 5U, 257U, 100003U}) {
                    std::vector<float> expected(size);
                    std::vector<float> got(size, 7.0F);
                    fill_normal(seed, stream, first, expected);
                    GetParam().fill(seed, stream, first, got);
                    ASSERT_EQ(0, std::memcmp(expected.data(), got.data(), size * sizeof(float)))
                        << seed << " " << first << " " << size;
                }
            }
        }
    }
}

TEST_P(Normals, HaveTheBitsOfTheReferenceForMillions) {
    if (!GetParam().available()) GTEST_SKIP() << "needs a CUDA GPU";
    constexpr std::size_t kCount = 4'000'000;
    std::vector<float> expected(kCount);
    std::vector<float> got(kCount);
    fill_normal(9, Stream::test, 0, expected);
    GetParam().fill(9, Stream::test, 0, got);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bits, not values
    EXPECT_EQ(0, std::memcmp(expected.data(), got.data(), kCount * sizeof(float)));
}

INSTANTIATE_TEST_SUITE_P(Variants, Normals,
                         testing::ValuesIn(ops::normals_variants().begin(), ops::normals_variants().end()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(NormalsVariants, EndWithTheReference) {
    EXPECT_EQ(ops::normals_variants().back().name, "reference");
}

}  // namespace
}  // namespace imka

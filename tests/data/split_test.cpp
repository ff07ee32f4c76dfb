// Random halves.
#include "imka/data/split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

TEST(Split, HoldsEveryRowOnceAndTheOddOneInTheTestPart) {
    const auto s = random_halves(1001, 7);
    EXPECT_EQ(s.train.size(), 500U);
    EXPECT_EQ(s.test.size(), 501U);
    auto all = s.train;
    all.insert(all.end(), s.test.begin(), s.test.end());
    std::sort(all.begin(), all.end());
    std::vector<std::uint32_t> expected(1001);
    std::iota(expected.begin(), expected.end(), 0U);
    EXPECT_EQ(all, expected);
}

TEST(Split, IsThePermutationOfItsSeedInOrder) {
    const auto order = permutation(3, Stream::split, 10);
    const auto s = random_halves(10, 3);
    EXPECT_TRUE(std::equal(s.train.begin(), s.train.end(), order.begin()));
    EXPECT_TRUE(std::equal(s.test.begin(), s.test.end(), order.begin() + 5));
    EXPECT_NE(random_halves(1000, 3).train, random_halves(1000, 4).train);
}

TEST(Split, RefusesSizesThatHaveNoHalves) {
    EXPECT_THROW(random_halves(0, 0), Error);
    EXPECT_THROW(random_halves(1, 0), Error);
    EXPECT_THROW(random_halves(std::uint64_t{1} << 32U, 0), Error);
}

}  // namespace
}  // namespace imka

// Parallel loops: each index once, same bits for any thread count, exceptions and cancellation.
#include "imka/base/parallel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

class ParallelFor : public testing::TestWithParam<int> {
protected:
    Exec exec() const { return {.threads = GetParam()}; }
};

TEST_P(ParallelFor, CallsEachIndexOnce) {
    for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
        std::vector<std::atomic<int>> calls(count);
        parallel_for(exec(), count, [&](std::size_t i) { ++calls[i]; });
        for (const auto& c : calls) EXPECT_EQ(c, 1);
    }
}

TEST_P(ParallelFor, RethrowsAndStopsEarly) {
    std::atomic<std::size_t> calls{0};
    const auto body = [&](std::size_t i) {
        ++calls;
        if (i == 5) throw std::runtime_error("tile 5");
    };
    EXPECT_THROW(
        {
            try {
                parallel_for(exec(), 10'000'000, body);
            } catch (const std::runtime_error& e) {
                EXPECT_STREQ(e.what(), "tile 5");
                throw;
            }
        },
        std::runtime_error);
    EXPECT_LT(calls, 10'000'000U);
}

TEST_P(ParallelFor, RethrowsTheLowestOfThoseThatFailed) {
    std::atomic<int> arrived{0};
    const int together = GetParam();
    // The first indices all start before any of them fails.
    const auto body = [&](std::size_t i) {
        ++arrived;
        while (arrived < together) std::this_thread::yield();
        throw std::runtime_error(std::to_string(i));
    };
    try {
        parallel_for(exec(), static_cast<std::size_t>(together), body);
        ADD_FAILURE() << "no exception";
    } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "0");
    }
}

TEST_P(ParallelFor, StopsWhenCancelled) {
    std::atomic<bool> cancel{false};
    std::atomic<std::size_t> calls{0};
    auto stoppable = exec();
    stoppable.cancel = &cancel;
    try {
        parallel_for(stoppable, 10'000'000, [&](std::size_t) {
            if (++calls == 10) cancel = true;
        });
        ADD_FAILURE() << "no exception";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::interrupted);
    }
    EXPECT_LT(calls, 10'000'000U);
}

TEST_P(ParallelFor, CanBeNested) {
    std::atomic<int> calls{0};
    parallel_for(exec(), 4, [&](std::size_t) { parallel_for(exec(), 4, [&](std::size_t) { ++calls; }); });
    EXPECT_EQ(calls, 16);
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelFor, testing::Values(1, 2, 7));

TEST(ParallelSum, HasTheSameBitsForAnyThreadCount) {
    const auto term = [](std::size_t i) {
        return std::exp(20.0 * (uniform(3, Stream::test, i) - 0.5)) * (i % 2 == 0 ? 1.0 : -1.0);
    };
    for (const std::size_t count : {0U, 1U, 2U, 3U, 1023U, 10'000U}) {
        const double one = parallel_sum({.threads = 1}, count, term);
        for (const int threads : {2, 7}) {
            EXPECT_EQ(std::bit_cast<std::uint64_t>(parallel_sum({.threads = threads}, count, term)),
                      std::bit_cast<std::uint64_t>(one))
                << count << " terms, " << threads << " threads";
        }
    }
}

TEST(TreeSum, AddsInPairsOfHalves) {
    EXPECT_EQ(tree_sum({}), 0.0);
    // With halves {1e16, 1} and {1, 1, -1e16}: (1e16 + 1) + (1 + (1 - 1e16)) in double.
    const std::vector<double> v = {1e16, 1.0, 1.0, 1.0, -1e16};
    EXPECT_EQ(tree_sum(v), (1e16 + 1.0) + (1.0 + (1.0 - 1e16)));
}

// Pairwise summation of n equal terms has at most log2(n) roundings; adding 0.1 sequentially a million times
// has an error of 1e-6.
TEST(TreeSum, IsAccurate) {
    const std::vector<double> v(1'000'000, 0.1);
    EXPECT_NEAR(tree_sum(v), 100'000.0, 100'000.0 * 20.0 * 0x1p-53 + 1e-11);
}

}  // namespace
}  // namespace imka

// Team: sums, broadcasts, and the partition of rows.
#include "imka/base/team.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "support/thread_team.hpp"

namespace imka {
namespace {

TEST(Team, EveryMemberGetsTheSum) {
    for (const std::size_t size : {1U, 2U, 5U}) {
        run_team(size, [&](const Team& team) {
            const double wanted = static_cast<double>(size * (size + 1)) / 2.0;
            EXPECT_EQ(sum_over(team, static_cast<double>(team.rank() + 1)), wanted);
        });
    }
}

TEST(Team, BroadcastCopiesRankZeroToAll) {
    run_team(3, [](const Team& team) {
        std::vector<double> values(4, static_cast<double>(team.rank()) + 7.0);
        broadcast(team, values);
        EXPECT_EQ(values, std::vector<double>(4, 7.0));
    });
}

TEST(Team, EachRowBelongsToOneMember) {
    for (const std::size_t size : {1U, 2U, 3U, 7U}) {
        for (const std::size_t rows : {0U, 1U, 5U, 1000U}) {
            std::vector<std::atomic<int>> taken(rows);
            run_team(size, [&](const Team& team) {
                const auto [first, count] = my_rows(&team, rows);
                for (std::size_t r = first; r < first + count; ++r) ++taken.at(r);
            });
            for (const auto& t : taken) EXPECT_EQ(t, 1);
        }
    }
    EXPECT_EQ(my_rows(nullptr, 9).count, 9U);
}

}  // namespace
}  // namespace imka

// Placements compared: every point is a mapping of its options, and the front has no dominated point.
#include "imka/deploy/pareto.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "imka/chip/spec/chip.hpp"

namespace imka {
namespace {

std::vector<PlacementPoint> points_of(const char* network) {
    const auto list = known_network(network).matrices;
    return compare_placements(list, pipeline_of(list), chip_preset("hermes"), {.digital = false}, 1);
}

TEST(Pareto, HasTheFewestCoresAndTheLeastTime) {
    const auto points = points_of("performer-listops");
    ASSERT_GE(points.size(), 5U);
    EXPECT_EQ(points.front().cores, 1U);
    EXPECT_TRUE(points.front().best);
    const auto fastest = std::ranges::min_element(points, {}, &PlacementPoint::makespan_seconds);
    const auto by_time = std::ranges::find(points, Objective::least_time,
                                           [](const PlacementPoint& p) { return p.options.objective; });
    EXPECT_DOUBLE_EQ(by_time->makespan_seconds, fastest->makespan_seconds);
    EXPECT_TRUE(fastest->best);
    EXPECT_LT(fastest->makespan_seconds, points.front().makespan_seconds / 10.0);
}

TEST(Pareto, PointsOnTheFrontAreNotDominated) {
    const auto points = points_of("ic");
    for (const auto& a : points) {
        const auto better = std::ranges::any_of(points, [&](const PlacementPoint& b) {
            return b.cores <= a.cores && b.makespan_seconds <= a.makespan_seconds &&
                   *b.core_joules <= *a.core_joules &&
                   (b.cores < a.cores || b.makespan_seconds < a.makespan_seconds ||
                    *b.core_joules < *a.core_joules);
        });
        EXPECT_EQ(a.best, !better) << a.cores;
    }
}

}  // namespace
}  // namespace imka

// Compares placements by cores, time and energy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "imka/deploy/map.hpp"
#include "imka/deploy/pipeline.hpp"
#include "imka/deploy/schedule.hpp"

namespace imka {

// Whether a point with the values a beats one with the values b: at least as small in all, and smaller in
// one.
bool dominates(std::span<const double> a, std::span<const double> b);

// Sets `best` of every point that no other one beats. values(point): an array of numbers to minimise.
template <class Point, class Values>
void mark_best(const Values& values, std::vector<Point>& points) {
    for (auto& p : points) {
        p.best = std::ranges::none_of(
            points, [&](const Point& other) { return dominates(values(other), values(p)); });
    }
}

struct PlacementPoint {
    MapOptions options;
    std::size_t cores = 0;
    std::size_t chips = 0;
    double makespan_seconds = 0.0;  // of one inference
    double interval_seconds = 0.0;  // between successive inferences
    std::optional<double> core_joules;
    bool best = false;  // no other point is at least as good in cores, makespan and energy, and better in one
};

// Mappings of `list` with different cuts, copies and objectives on `chips` chips (0: as many as one copy
// needs), sorted by cores. The pipeline is that of the list, or of the network that the list comes from.
// Error{bad_config} if nothing fits.
std::vector<PlacementPoint> compare_placements(const MatrixList& list, const Pipeline& pipeline,
                                               const ChipSpec& spec, const ScheduleOptions& timing,
                                               std::size_t chips);

}  // namespace imka

#include "imka/deploy/pareto.hpp"

#include <algorithm>
#include <array>

#include "imka/base/error.hpp"
#include "imka/deploy/mapping_cost.hpp"

namespace imka {
namespace {

// All options to try. Copies double until they no longer fit.
std::vector<MapOptions> all_options(std::size_t cores, std::size_t needed, std::size_t chips) {
    std::vector<MapOptions> list;
    for (const auto cuts : {Cuts::grid, Cuts::free}) {
        for (std::size_t copies = 1; copies * needed <= 2 * cores; copies *= 2)
            list.push_back({.cuts = cuts, .chips = chips, .replicas = copies});
    }
    list.push_back({.cuts = Cuts::even, .chips = chips});
    list.push_back({.objective = Objective::least_time, .chips = chips});
    return list;
}

std::optional<MapResult> try_mapping(const MatrixList& list, const CoreGrid& grid, const MapOptions& options,
                                     const Pipeline& pipeline) {
    try {
        return map_matrices(list, grid, pipeline, options);
    } catch (const Error& e) {
        if (e.code() != ErrorCode::bad_config) throw;
        return std::nullopt;  // does not fit
    }
}

}  // namespace

bool dominates(std::span<const double> a, std::span<const double> b) {
    bool smaller = false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] > b[i]) return false;
        smaller = smaller || a[i] < b[i];
    }
    return smaller;
}

std::vector<PlacementPoint> compare_placements(const MatrixList& list, const Pipeline& pipeline,
                                               const ChipSpec& spec, const ScheduleOptions& timing,
                                               std::size_t chips) {
    const auto grid = grid_of(spec);
    const auto fewest = map_matrices(list, grid, {.chips = chips});
    const auto most = chips == 0 ? fewest.mapping.grid.chips : chips;
    const auto data = cost_data();
    std::vector<PlacementPoint> points;
    for (const auto& options : all_options(most * grid.cores, fewest.cores, most)) {
        const auto result = try_mapping(list, grid, options, pipeline);
        if (!result) continue;
        const auto schedule = make_schedule(pipeline, result->mapping, spec, data, timing);
        points.push_back({.options = options,
                          .cores = result->cores,
                          .chips = result->mapping.grid.chips,
                          .makespan_seconds = schedule.makespan_seconds,
                          .interval_seconds = schedule.interval_seconds,
                          .core_joules = mapping_cost(result->mapping, spec, {}, data).core_joules});
    }
    mark_best(
        [](const PlacementPoint& p) {
            return std::array{static_cast<double>(p.cores), p.makespan_seconds, p.core_joules.value_or(0.0)};
        },
        points);
    std::ranges::stable_sort(points, {}, &PlacementPoint::cores);
    return points;
}

}  // namespace imka

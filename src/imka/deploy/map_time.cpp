#include "imka/deploy/map_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/deploy/pack_bound.hpp"
#include "imka/deploy/schedule.hpp"

namespace imka {
namespace {

constexpr std::size_t kMostTimedMatrices = 4096;

// Which matrices run at the same time, and how many calls of each.
struct Concurrency {
    std::vector<std::vector<bool>> conflict;
    std::vector<std::size_t> calls;
};

// Every tile on a separate core.
Mapping spread_out(const MatrixList& list, const CoreGrid& grid) {
    Mapping mapping{.grid = grid};
    for (std::uint32_t m = 0; m < list.size(); ++m) {
        mapping.matrices.push_back(mapped_matrix(list[m], 1));
        for (const auto& tile : grid_tiles(list[m], grid))
            mapping.regions.push_back(
                {.matrix = m, .core = static_cast<std::uint32_t>(mapping.regions.size()), .tile = tile});
    }
    return mapping;
}

Concurrency concurrency_of(const MatrixList& list, const CoreGrid& grid, const Pipeline& pipeline) {
    if (list.size() > kMostTimedMatrices)
        fail(ErrorCode::bad_config, fmt::format("{} matrices; the objective least_time takes at most {}",
                                                list.size(), kMostTimedMatrices));
    ChipSpec unit;  // only ratios of times matter
    unit.core.cost.product_overhead_seconds = 1.0;
    const auto windows = step_windows(pipeline, spread_out(list, grid), unit, cost_data());
    std::vector<std::vector<std::size_t>> steps(list.size());
    for (std::size_t s = 0; s < pipeline.steps.size(); ++s) {
        for (const auto m : pipeline.steps[s].matrices) steps.at(m).push_back(s);
    }
    Concurrency out;
    for (std::size_t a = 0; a < list.size(); ++a) {
        out.conflict.emplace_back(list.size());
        for (std::size_t b = 0; b < list.size(); ++b) {
            out.conflict[a][b] = a == b || std::ranges::any_of(steps[a], [&](std::size_t s) {
                                     return std::ranges::any_of(steps[b], [&](std::size_t t) {
                                         return overlap(windows[s], windows[t]);
                                     });
                                 });
        }
        const auto groups = call_slots(steps[a], windows).groups;
        out.calls.push_back(groups.empty() ? 1 : std::ranges::max(groups));
    }
    return out;
}

// Cores with stacked tiles.
class Cores {
public:
    Cores(const CoreGrid& grid, const Concurrency& concurrency, std::size_t most)
        : grid_(grid), concurrency_(concurrency), most_(most) {}

    // Places copies of a matrix, on the first cores without a conflict; all of them or none.
    bool place(const ListedMatrix& shape, std::uint32_t matrix, std::uint32_t first_copy,
               std::uint32_t count) {
        const auto before = cores_;
        const auto regions = regions_.size();
        for (auto copy = first_copy; copy < first_copy + count; ++copy) {
            for (const auto& tile : grid_tiles(shape, grid_)) {
                const auto core = find_core(matrix, tile);
                if (!core) {
                    cores_ = before;
                    regions_.resize(regions);
                    return false;
                }
                auto& place = cores_[*core];
                regions_.push_back({.matrix = matrix,
                                    .replica = copy,
                                    .core = static_cast<std::uint32_t>(*core),
                                    .row = static_cast<std::uint32_t>(place.rows),
                                    .col = 0,
                                    .tile = tile});
                place.rows += tile.rows;
                place.matrices.push_back(matrix);
            }
        }
        return true;
    }

    std::size_t used() const { return cores_.size(); }

    // By matrix, replica, first output and first input.
    std::vector<Region> regions() const {
        auto sorted = regions_;
        std::ranges::sort(sorted, {}, [](const Region& r) {
            return std::tuple(r.matrix, r.replica, r.tile.first_col, r.tile.first_row);
        });
        return sorted;
    }

private:
    struct Core {
        std::size_t rows = 0;  // in use
        std::vector<std::uint32_t> matrices;
    };

    std::optional<std::size_t> find_core(std::uint32_t matrix, const Tile& tile) {
        const auto& conflict = concurrency_.conflict[matrix];
        for (std::size_t c = 0; c < cores_.size(); ++c) {
            if (cores_[c].rows + tile.rows <= grid_.rows &&
                std::ranges::none_of(cores_[c].matrices, [&](std::uint32_t m) { return conflict[m]; }))
                return c;
        }
        if (cores_.size() == most_) return std::nullopt;
        cores_.emplace_back();
        return cores_.size() - 1;
    }

    const CoreGrid& grid_;
    const Concurrency& concurrency_;
    std::size_t most_;
    std::vector<Core> cores_;
    std::vector<Region> regions_;
};

// Cores that one copy of every matrix needs.
std::size_t least_needed(const MatrixList& list, const CoreGrid& grid, const Concurrency& concurrency) {
    Cores cores(grid, concurrency, static_cast<std::size_t>(-1));
    for (std::uint32_t m = 0; m < list.size(); ++m) cores.place(list[m], m, 0, 1);
    return cores.used();
}

// Repeatedly adds copies of the matrix with the most products per copy, one per call that can run at the same
// time, until no further copies fit.
std::vector<std::size_t> add_copies(const MatrixList& list, const Concurrency& concurrency, Cores& cores) {
    std::vector<std::size_t> copies(list.size(), 1);
    std::priority_queue<std::pair<double, std::uint32_t>> queue;
    const auto load = [&](std::uint32_t m) {
        return static_cast<double>(list[m].vectors * concurrency.calls[m]) / static_cast<double>(copies[m]);
    };
    for (std::uint32_t m = 0; m < list.size(); ++m) queue.emplace(load(m), m);
    while (!queue.empty()) {
        const auto [products, m] = queue.top();
        queue.pop();
        const auto calls = concurrency.calls[m];
        const auto more = copies[m] < calls ? calls - copies[m] : calls;
        if (products <= 1.0) continue;
        if (!cores.place(list[m], m, static_cast<std::uint32_t>(copies[m]), static_cast<std::uint32_t>(more)))
            continue;
        copies[m] += more;
        queue.emplace(load(m), m);
    }
    return copies;
}

}  // namespace

MapResult map_for_time(const MatrixList& list, const CoreGrid& grid, const MapOptions& options,
                       const Pipeline& pipeline) {
    const auto concurrency = concurrency_of(list, grid, pipeline);
    const auto needed = least_needed(list, grid, concurrency);
    const auto chips = options.chips > 0 ? options.chips : (needed + grid.cores - 1) / grid.cores;
    if (needed > chips * grid.cores)
        fail(ErrorCode::bad_config,
             fmt::format(
                 "the objective least_time needs {} cores of {} x {} for one copy of every matrix; only {} "
                 "available; use the objective least_cores, or {} chips",
                 needed, grid.rows, grid.cols, chips * grid.cores, (needed + grid.cores - 1) / grid.cores));
    Cores cores(grid, concurrency, chips * grid.cores);
    for (std::uint32_t m = 0; m < list.size(); ++m) cores.place(list[m], m, 0, 1);
    const auto copies = add_copies(list, concurrency, cores);
    MapResult result{.cores = cores.used()};
    result.mapping.grid = grid;
    result.mapping.grid.chips = chips;
    result.mapping.regions = cores.regions();
    std::vector<PackItem> items;
    for (const auto& r : result.mapping.regions)
        items.push_back({static_cast<std::uint32_t>(r.tile.rows), static_cast<std::uint32_t>(r.tile.cols)});
    result.bound = pack_bound(items, {.rows = static_cast<std::uint32_t>(grid.rows),
                                      .cols = static_cast<std::uint32_t>(grid.cols)});
    result.one_tile_cores = items.size();
    for (std::size_t m = 0; m < list.size(); ++m)
        result.mapping.matrices.push_back(mapped_matrix(list[m], copies[m]));
    return result;
}

}  // namespace imka

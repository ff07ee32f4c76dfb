#include "imka/deploy/map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/cost_data.hpp"
#include "imka/deploy/map_time.hpp"
#include "imka/deploy/pack_bound.hpp"
#include "imka/deploy/schedule.hpp"

namespace imka {
namespace {

constexpr std::size_t kMostTiles = 65536;

std::size_t ceil_divide(std::size_t a, std::size_t b) {
    return (a + b - 1) / b;
}

// The tile of every rectangle to pack.
struct TileOf {
    std::uint32_t matrix = 0;
    std::uint32_t replica = 0;
    Tile tile;
};

struct TileSet {
    std::vector<TileOf> tiles;
    std::vector<PackItem> items;
    std::vector<std::size_t> replicas;  // per matrix
};

double products_of(const ListedMatrix& m) {
    return static_cast<double>(m.calls) * static_cast<double>(m.vectors);
}

// A double, because the number may not fit an integer.
double copies_of(const ListedMatrix& m, const MapOptions& options) {
    return options.core_products == 0.0 ? 1.0 : std::ceil(products_of(m) / options.core_products);
}

void add_tiles(const ListedMatrix& m, std::uint32_t number, const CoreGrid& grid, TileSet& set) {
    const auto copies = set.replicas[number];
    const auto load = products_of(m) / static_cast<double>(copies);
    for (std::uint32_t r = 0; r < copies; ++r) {
        for (const auto& tile : grid_tiles(m, grid)) {
            set.tiles.push_back({number, r, tile});
            set.items.push_back(
                {static_cast<std::uint32_t>(tile.rows), static_cast<std::uint32_t>(tile.cols), load});
        }
    }
}

TileSet tiles_of(const MatrixList& list, const CoreGrid& grid, const MapOptions& options) {
    TileSet set;
    const auto repeats = static_cast<double>(std::max<std::size_t>(1, options.replicas));
    double count = 0.0;
    for (const auto& m : list) {
        const auto tiles = ceil_divide(m.inputs, grid.rows) * ceil_divide(m.outputs, grid.cols);
        count += static_cast<double>(tiles) * copies_of(m, options) * repeats;
        if (count > kMostTiles)
            fail(ErrorCode::bad_config,
                 fmt::format("matrix {}: more than {} tiles up to this one; use larger "
                             "cores or fewer copies",
                             in_quotes(m.name), kMostTiles));
        set.replicas.push_back(static_cast<std::size_t>(copies_of(m, options)));
        add_tiles(m, static_cast<std::uint32_t>(set.replicas.size() - 1), grid, set);
    }
    return set;
}

// One copy (with core_products: all copies) of every matrix.
struct Placed {
    std::vector<Region> regions;
    std::size_t cores = 0;
    PackBound bound;
};

// Numbers cores by their first matrix, so that neighbouring layers share a chip.
void order_cores(Placed& placed) {
    std::ranges::sort(placed.regions, {}, [](const Region& r) {
        return std::tuple(r.matrix, r.replica, r.tile.first_col, r.tile.first_row);
    });
    std::map<std::uint32_t, std::uint32_t> numbers;
    for (auto& region : placed.regions)
        region.core = numbers.emplace(region.core, static_cast<std::uint32_t>(numbers.size())).first->second;
}

Region region_of(const TileOf& tile, const PackPiece& piece) {
    return {.matrix = tile.matrix,
            .replica = tile.replica,
            .core = piece.spot.bin,
            .row = piece.spot.row,
            .col = piece.spot.col,
            .tile = {tile.tile.first_row + piece.first_row, piece.rows, tile.tile.first_col + piece.first_col,
                     piece.cols}};
}

Placed place_tiles(const TileSet& set, const CoreGrid& grid, const MapOptions& options) {
    PackBin bin{.rows = static_cast<std::uint32_t>(grid.rows), .cols = static_cast<std::uint32_t>(grid.cols)};
    if (options.core_products > 0.0) bin.load = options.core_products;
    Placed placed;
    if (options.cuts == Cuts::free) {
        const auto packing = pack_with_cuts(set.items, bin, {.seed = options.seed});
        for (const auto& piece : packing.pieces)
            placed.regions.push_back(region_of(set.tiles[piece.item], piece));
        placed.cores = packing.bins;
        placed.bound = packing.bound;
    } else {
        const auto packing = pack(set.items, bin, {.seed = options.seed});
        for (std::size_t i = 0; i < set.tiles.size(); ++i)
            placed.regions.push_back(region_of(
                set.tiles[i],
                {.item = i, .rows = set.items[i].rows, .cols = set.items[i].cols, .spot = packing.spots[i]}));
        placed.cores = packing.bins;
        placed.bound = packing.bound;
    }
    order_cores(placed);
    return placed;
}

// The bound for several copies, which need not be copies of one layout.
PackBound bound_of_copies(const TileSet& set, const CoreGrid& grid, const MapOptions& options,
                          std::size_t copies) {
    std::vector<PackItem> items;
    for (std::size_t c = 0; c < copies; ++c) items.insert(items.end(), set.items.begin(), set.items.end());
    const PackBin bin{.rows = static_cast<std::uint32_t>(grid.rows),
                      .cols = static_cast<std::uint32_t>(grid.cols)};
    return options.cuts == Cuts::free ? cut_bound(items, bin) : pack_bound(items, bin);
}

// Not settings: the sizes come from a chip or a file.
void check_core_sizes(const CoreGrid& grid) {
    const auto check = [](std::string_view what, std::size_t value) {
        if (value < 1 || value > 65536)
            fail(ErrorCode::bad_config, fmt::format("{}: {}; expected 1 to 65536", what, value));
    };
    check("rows of a core", grid.rows);
    check("columns of a core", grid.cols);
    check("cores", grid.cores);
}

void check_options(const CoreGrid& grid, const MapOptions& options) {
    check_core_sizes(grid);
    auto copy = options;
    check_ranges(fields(copy));
    if (options.core_products > 0.0 && options.replicas != 1)
        fail(ErrorCode::bad_config,
             "a limit of products per core chooses the copies of every matrix; it excludes replicas");
    if (options.cuts == Cuts::even &&
        (options.objective != Objective::least_cores || options.replicas != 1 || options.core_products > 0.0))
        fail(ErrorCode::bad_config,
             "even cuts place one tile per core, once; they exclude copies and objectives");
    if (options.objective != Objective::least_cores && options.cuts == Cuts::free)
        fail(ErrorCode::bad_config,
             fmt::format(
                 "free cuts with the objective {}; every further tile is one more product per vector, so "
                 "it needs grid cuts",
                 to_string(options.objective)));
    if (options.objective == Objective::least_time && (options.replicas != 1 || options.core_products > 0.0))
        fail(ErrorCode::bad_config,
             "the objective least_time chooses the copies of every matrix; it excludes "
             "replicas and a limit of products per core");
}

std::size_t one_tile_cores(const MatrixList& list, const CoreGrid& grid) {
    std::size_t cores = 0;
    for (const auto& m : list) cores += ceil_divide(m.inputs, grid.rows) * ceil_divide(m.outputs, grid.cols);
    return cores;
}

std::string chips_text(std::size_t chips) {
    return chips == 1 ? "1 chip" : fmt::format("{} chips", chips);
}

// The mapping without the limit on chips.
MapResult map_freely(const MatrixList& list, const CoreGrid& grid, MapOptions options) {
    options.chips = 0;
    return map_matrices(list, grid, options);
}

// The least limit of products per core with which the matrices fit on `cores`, within 10 %; none if there is
// no such limit.
std::optional<double> products_that_fit(const MatrixList& list, const CoreGrid& grid, MapOptions options,
                                        std::size_t cores) {
    double least = options.core_products;
    double most = 0.0;
    for (const auto& m : list) most += products_of(m) * static_cast<double>(one_tile_cores({m}, grid));
    const auto fits = [&](double limit) {
        options.core_products = limit;
        return map_freely(list, grid, options).cores <= cores;
    };
    if (!fits(most)) return std::nullopt;
    while (most > 1.1 * least) {
        const double middle = std::sqrt(least * most);
        (fits(middle) ? most : least) = middle;
    }
    return most;
}

// Changes of the options that make the matrices fit, smallest first.
std::vector<std::string> changes_that_fit(const MatrixList& list, const CoreGrid& grid,
                                          const MapOptions& options, const MapResult& needed) {
    std::vector<std::string> changes;
    const auto available = options.chips * grid.cores;
    if (options.cuts == Cuts::grid) {
        auto other = options;
        other.cuts = Cuts::free;
        const auto cores = map_freely(list, grid, other).cores;
        if (cores <= available) changes.push_back(fmt::format("free cuts ({} cores)", cores));
    }
    if (const auto fit = available / (needed.cores / std::max<std::size_t>(1, options.replicas));
        options.replicas > 1 && fit > 0)
        changes.push_back(fmt::format("{} {}", fit, fit == 1 ? "replica" : "replicas"));
    if (options.core_products > 0.0) {
        if (const auto limit = products_that_fit(list, grid, options, available))
            // 0.995: three digits, never rounded up.
            changes.push_back(
                fmt::format("{:.3g} of the throughput", 0.995 * options.core_products / *limit));
    }
    changes.push_back(chips_text(ceil_divide(needed.cores, grid.cores)));
    return changes;
}

[[noreturn]] void refuse(const MatrixList& list, const CoreGrid& grid, const MapOptions& options,
                         const MapResult& needed) {
    const auto available = options.chips * grid.cores;
    const bool proven = needed.bound.bins > available;
    const auto cores = proven ? needed.bound.bins : needed.cores;
    const auto reason =
        proven ? fmt::format("at least {} cores (tightest constraint: {})", cores, needed.bound.reason)
               : fmt::format("{} cores in the best packing found (lower bound {}: {})", cores,
                             needed.bound.bins, needed.bound.reason);
    std::string text;
    for (const auto& change : changes_that_fit(list, grid, options, needed))
        text += (text.empty() ? "" : ", or ") + change;
    fail(ErrorCode::bad_config,
         fmt::format("the matrices need {} of {} x {}; {} available on {}, {} missing; possible changes: {}",
                     reason, grid.rows, grid.cols, available, chips_text(options.chips), cores - available,
                     text));
}

std::size_t count_replicas(const MapOptions& options, const CoreGrid& grid, std::size_t cores) {
    if (options.replicas > 0) return options.replicas;
    const auto chips = options.chips > 0 ? options.chips : ceil_divide(cores, grid.cores);
    return std::max<std::size_t>(1, std::min<std::size_t>(65536, chips * grid.cores / cores));
}

void repeat_regions(std::size_t replicas, std::size_t cores, std::vector<Region>& regions) {
    const auto one = regions;
    for (std::uint32_t r = 1; r < replicas; ++r) {
        for (auto region : one) {
            region.replica = r;
            region.core += static_cast<std::uint32_t>(r * cores);
            regions.push_back(region);
        }
    }
    std::ranges::stable_sort(regions, {}, [](const Region& r) { return std::pair(r.matrix, r.replica); });
}

}  // namespace

MappedMatrix mapped_matrix(const ListedMatrix& matrix, std::size_t replicas) {
    MappedMatrix mapped{.shape = matrix,
                        .replicas = replicas,
                        .weight = matrix.name + ".weight",
                        .bias = matrix.name + ".bias"};
    mapped.shape.sites.clear();  // a mapping stores where weights are, not when they are used
    return mapped;
}

std::vector<Tile> grid_tiles(const ListedMatrix& matrix, const CoreGrid& grid) {
    std::vector<Tile> tiles;
    for (std::size_t col = 0; col < matrix.outputs; col += grid.cols) {
        for (std::size_t row = 0; row < matrix.inputs; row += grid.rows)
            tiles.push_back({row, std::min(grid.rows, matrix.inputs - row), col,
                             std::min(grid.cols, matrix.outputs - col)});
    }
    return tiles;
}

namespace {

// Sets the number of chips, or refuses what does not fit them.
void fit_to_chips(const MatrixList& list, const CoreGrid& grid, const MapOptions& options,
                  MapResult& result) {
    if (options.chips > 0 && result.cores > options.chips * grid.cores) refuse(list, grid, options, result);
    result.mapping.grid = grid;
    result.mapping.grid.chips =
        std::max(std::max<std::size_t>(1, options.chips), ceil_divide(result.cores, grid.cores));
}

// One tile per core, cores in the order of tiles.
MapResult map_evenly(const MatrixList& list, const CoreGrid& grid, const MapOptions& options) {
    CoreSpec core;
    core.rows = static_cast<int>(grid.rows);
    core.cols = static_cast<int>(grid.cols);
    MapResult result{.one_tile_cores = one_tile_cores(list, grid)};
    auto& regions = result.mapping.regions;
    for (std::uint32_t m = 0; m < list.size(); ++m) {
        for (const auto& tile : tile_matrix(list[m].inputs, list[m].outputs, core))
            regions.push_back(
                {.matrix = m, .core = static_cast<std::uint32_t>(regions.size()), .tile = tile});
        result.mapping.matrices.push_back(mapped_matrix(list[m], 1));
    }
    result.cores = regions.size();
    result.bound = {.bins = result.cores, .reason = "one tile per core"};
    fit_to_chips(list, grid, options, result);
    return result;
}

}  // namespace

namespace {

// Of the products alone, in units of one product.
double makespan(const Pipeline& pipeline, const Mapping& mapping) {
    ChipSpec unit;
    unit.core.cost.product_overhead_seconds = 1.0;
    return make_schedule(pipeline, mapping, unit, cost_data(), {.digital = false}).makespan_seconds;
}

// None if the chips have too few cores.
std::optional<MapResult> find_for_time(const MatrixList& list, const CoreGrid& grid,
                                       const MapOptions& options, const Pipeline& pipeline) {
    try {
        return map_for_time(list, grid, options, pipeline);
    } catch (const Error& e) {
        if (options.chips == 0 || e.code() != ErrorCode::bad_config) throw;
        return std::nullopt;
    }
}

}  // namespace

Fields fields(MapOptions& o) {
    using range::between;
    return {
        field(
            "objective", o.objective,
            {.help = "Fewest cores, least time (separate cores and extra copies, on 1 chip if one is enough) "
                     "or least energy (fewest core products)"}),
        field("cuts", o.cuts,
              {.help = "Where matrices are cut: at multiples of the core, also elsewhere to save cores, or "
                       "evenly with one tile per core (as in imka ridge)"}),
        field("chips", o.chips, between(0, 65536, "Maximum number of chips; 0 = as many as needed")),
        field("replicas", o.replicas,
              between(0, 65536, "Copies of all matrices, each on its own cores; 0: as many as fit")),
        field("core_products", o.core_products,
              range::not_negative("Maximum products of a core per inference; 0: no limit")),
        field("seed", o.seed, {.help = "Seed of the search"}),
    };
}

MapResult map_matrices(const MatrixList& list, const CoreGrid& grid, const Pipeline& pipeline,
                       const MapOptions& options) {
    if (options.objective != Objective::least_time) return map_matrices(list, grid, options);
    validate(list);
    check_options(grid, options);
    auto own = find_for_time(list, grid, options, pipeline);
    const auto packed =
        map_matrices(list, grid, {.chips = options.chips, .replicas = 0, .seed = options.seed});
    return own && makespan(pipeline, own->mapping) <= makespan(pipeline, packed.mapping) ? *own : packed;
}

MapResult map_matrices(const MatrixList& list, const CoreGrid& grid, const MapOptions& options) {
    if (options.objective == Objective::least_time)
        return map_matrices(list, grid, pipeline_of(list), options);
    validate(list);
    check_options(grid, options);
    if (options.cuts == Cuts::even) return map_evenly(list, grid, options);
    const auto set = tiles_of(list, grid, options);
    auto placed = place_tiles(set, grid, options);
    const auto replicas = count_replicas(options, grid, placed.cores);
    MapResult result{.cores = placed.cores * replicas,
                     .bound = replicas == 1 ? placed.bound : bound_of_copies(set, grid, options, replicas),
                     .one_tile_cores = one_tile_cores(list, grid) * replicas};
    fit_to_chips(list, grid, options, result);
    repeat_regions(replicas, placed.cores, placed.regions);
    result.mapping.regions = std::move(placed.regions);
    for (std::size_t m = 0; m < list.size(); ++m)
        result.mapping.matrices.push_back(mapped_matrix(list[m], set.replicas[m] * replicas));
    return result;
}

}  // namespace imka

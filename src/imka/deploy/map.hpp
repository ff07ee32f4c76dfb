// The mapper: places matrices on as few cores as possible, several per core, with a proven lower bound; or
// for least time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/names.hpp"
#include "imka/deploy/mapping.hpp"
#include "imka/deploy/pack.hpp"

namespace imka {

struct Pipeline;

// Where a matrix may be cut into tiles.
enum class Cuts {
    grid,  // at multiples of the rows and columns of a core
    free,  // also elsewhere, if that saves a core
    even,  // into as few tiles as possible, of nearly equal size, one per core: as ridge and gram place Ω
};
template <>
struct EnumNames<Cuts> {
    static constexpr std::string_view what = "cuts";
    static constexpr std::string_view values[] = {"grid", "free", "even"};
};

enum class Objective {
    least_cores,
    least_time,  // matrices that run at the same time get different cores and copies, or whole copies of the
                 // densest mapping fill the chips: whichever is faster
    least_energy,  // fewest core products: grid cuts, in as few cores as possible
};
template <>
struct EnumNames<Objective> {
    static constexpr std::string_view what = "objective";
    static constexpr std::string_view values[] = {"least_cores", "least_time", "least_energy"};
};

struct MapOptions {
    Objective objective = Objective::least_cores;
    Cuts cuts = Cuts::grid;
    std::size_t chips = 0;     // maximum; 0: as many as needed; least_time adds copies on these only
    std::size_t replicas = 1;  // copies of all matrices, each on its own cores; 0: as many as fit
    // Maximum products of a core per inference; 0: no limit. Matrices with more get several copies, so that
    // successive inferences can start at this interval.
    double core_products = 0.0;
    std::uint64_t seed = 0;  // of the search
};
Fields fields(MapOptions& options);

struct MapResult {
    Mapping mapping;
    std::size_t cores = 0;           // used, on all chips
    PackBound bound;                 // no mapping with these cuts and copies uses fewer cores
    std::size_t one_tile_cores = 0;  // cores with one tile per core, cut at multiples of the core
    bool optimal() const { return cores == bound.bins; }
};

// The same arguments give the same mapping. Grid.chips is ignored (options.chips). Error{bad_config} if the
// matrices do not fit the chips: names the tightest constraint, the missing cores and the smallest changes
// that fit. With least_time, the lower bound is for the chosen copies.
MapResult map_matrices(const MatrixList& list, const CoreGrid& grid, const MapOptions& options = {});

// The same with the order of the steps of the pipeline instead of the list; only least_time uses the order.
MapResult map_matrices(const MatrixList& list, const CoreGrid& grid, const Pipeline& pipeline,
                       const MapOptions& options);

// The tiles of a matrix, cut at multiples of the core.
std::vector<Tile> grid_tiles(const ListedMatrix& matrix, const CoreGrid& grid);
// A matrix of a mapping, with the names of its weights.
MappedMatrix mapped_matrix(const ListedMatrix& matrix, std::size_t replicas);

}  // namespace imka

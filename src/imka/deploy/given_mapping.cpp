#include "imka/deploy/given_mapping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/pack_bound.hpp"

namespace imka {
namespace {

constexpr std::size_t kUnplaced = std::numeric_limits<std::size_t>::max();

// The matrix of the list that the mapping places as matrix `m`.
std::size_t find_matrix(const MappedMatrix& m, const MatrixList& list) {
    for (const auto& name : {m.shape.name, m.weight}) {
        const auto found = std::ranges::find(list, name, &ListedMatrix::name);
        if (found != list.end()) return static_cast<std::size_t>(found - list.begin());
    }
    std::vector<std::string_view> names;
    for (const auto& listed : list) names.push_back(listed.name);
    fail(ErrorCode::bad_data,
         fmt::format("the mapping places a matrix {}, which is not one of the {} matrices for the chip; {}",
                     in_quotes(m.shape.name), list.size(), nearest_names(m.shape.name, names)));
}

void check_grid(const CoreGrid& given, const CoreGrid& grid) {
    if (given.rows != grid.rows || given.cols != grid.cols || given.cores != grid.cores)
        fail(ErrorCode::bad_data,
             fmt::format("the mapping is for {} cores of {} x {} per chip; the chip has {} of {} x {}",
                         given.cores, given.rows, given.cols, grid.cores, grid.rows, grid.cols));
}

void check_size(const ListedMatrix& mapped, const ListedMatrix& listed) {
    if (mapped.inputs != listed.inputs || mapped.outputs != listed.outputs)
        fail(ErrorCode::bad_data,
             fmt::format("matrix {} is {} x {}; the mapping places {} x {} weights", in_quotes(listed.name),
                         listed.inputs, listed.outputs, mapped.inputs, mapped.outputs));
}

// For each matrix of the mapping, its index in the list. Every index occurs exactly once.
std::vector<std::size_t> numbers_of(const Mapping& mapping, const MatrixList& list) {
    std::vector<std::size_t> numbers;
    std::vector<std::size_t> placed(list.size(), kUnplaced);
    for (std::size_t m = 0; m < mapping.matrices.size(); ++m) {
        const auto k = find_matrix(mapping.matrices[m], list);
        if (placed[k] != kUnplaced)
            fail(ErrorCode::bad_data,
                 fmt::format("the mapping places matrix {} twice: as {} and as {}", in_quotes(list[k].name),
                             in_quotes(mapping.matrices[placed[k]].shape.name),
                             in_quotes(mapping.matrices[m].shape.name)));
        placed[k] = m;
        check_size(mapping.matrices[m].shape, list[k]);
        numbers.push_back(k);
    }
    const auto missing = std::ranges::find(placed, kUnplaced);
    if (missing != placed.end())
        fail(ErrorCode::bad_data,
             fmt::format("the mapping does not place matrix {}; place it, or leave it off the chip",
                         in_quotes(list[static_cast<std::size_t>(missing - placed.begin())].name)));
    return numbers;
}

PackBound area_bound(const Mapping& mapping) {
    std::vector<PackItem> items;
    for (const auto& r : mapping.regions)
        items.push_back({.rows = static_cast<std::uint32_t>(r.tile.rows),
                         .cols = static_cast<std::uint32_t>(r.tile.cols)});
    return cut_bound(items, {.rows = static_cast<std::uint32_t>(mapping.grid.rows),
                             .cols = static_cast<std::uint32_t>(mapping.grid.cols)});
}

}  // namespace

MapResult given_mapping(const Mapping& mapping, const MatrixList& list, const CoreGrid& grid) {
    check_grid(mapping.grid, grid);
    const auto numbers = numbers_of(mapping, list);
    MapResult result;
    result.mapping = {.grid = mapping.grid, .matrices = {}, .regions = mapping.regions};
    result.mapping.matrices.resize(list.size());
    for (std::size_t m = 0; m < numbers.size(); ++m) {
        const auto& shape = list[numbers[m]];
        const auto replicas = mapping.matrices[m].replicas;
        result.mapping.matrices[numbers[m]] = mapped_matrix(shape, replicas);
        result.one_tile_cores += replicas * grid_tiles(shape, grid).size();
    }
    for (auto& region : result.mapping.regions)
        region.matrix = static_cast<std::uint32_t>(numbers[region.matrix]);
    std::ranges::sort(result.mapping.regions, {}, [](const Region& r) {
        return std::tuple(r.matrix, r.replica, r.tile.first_col, r.tile.first_row);
    });
    verify_products(result.mapping);
    result.cores = cores_used(result.mapping);
    result.bound = area_bound(result.mapping);
    return result;
}

}  // namespace imka

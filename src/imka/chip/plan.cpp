#include "imka/chip/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

struct Part {
    std::size_t first = 0;
    std::size_t count = 0;
};

// Splits [0, n) into the fewest parts of at most `most`; sizes differ by at most 1.
std::vector<Part> even_parts(std::size_t n, std::size_t most) {
    const std::size_t parts = (n + most - 1) / most;
    std::vector<Part> out;
    for (std::size_t p = 0; p < parts; ++p) {
        const std::size_t first = p * n / parts;
        out.push_back({first, (p + 1) * n / parts - first});
    }
    return out;
}

void check_weights(const Matrix<float>& weights) {
    for (std::size_t r = 0; r < weights.rows(); ++r) {
        for (std::size_t c = 0; c < weights.cols(); ++c) {
            if (!std::isfinite(weights(r, c)))
                fail(ErrorCode::bad_data, fmt::format("weight {} of output {} is {}; weights must be finite",
                                                      r, c, weights(r, c)));
        }
    }
}

[[noreturn]] void fail_too_few(const ChipSpec& spec, const std::string& what, std::size_t needed) {
    const auto there = core_count(spec);
    const auto cores = static_cast<std::size_t>(spec.cores);
    fail(ErrorCode::bad_config,
         fmt::format("{} needs {} cores of {} x {}; {} available ({} on each of {}), {} missing; {} chips "
                     "would be enough",
                     what, needed, spec.core.rows, spec.core.cols, there, spec.cores,
                     spec.chips == 1 ? "1 chip" : fmt::format("{} chips", spec.chips), needed - there,
                     (needed + cores - 1) / cores));
}

std::string matrices_text(const std::vector<PlannedMatrix>& matrices, std::size_t replicas) {
    const auto& first = matrices.front().weights;
    auto text = matrices.size() == 1
                    ? fmt::format("a matrix of {} inputs and {} outputs", first.rows(), first.cols())
                    : fmt::format("a group of {} matrices", matrices.size());
    if (replicas > 1) text += fmt::format(" in {} copies", replicas);
    return text;
}

std::size_t count_replicas(const ChipSpec& spec, std::size_t tiles, int replicas) {
    assert(tiles > 0);
    return replicas == 0 ? std::max<std::size_t>(1, core_count(spec) / tiles)
                         : static_cast<std::size_t>(replicas);
}

void place_matrix(std::uint32_t matrix, const std::vector<Tile>& tiles, Plan& plan) {
    for (std::uint32_t r = 0; r < plan.matrices[matrix].replicas; ++r) {
        for (const auto& tile : tiles) {
            const auto core = static_cast<std::uint32_t>(plan.regions.size());
            plan.regions.push_back({.matrix = matrix, .replica = r, .core = core, .tile = tile});
            plan.scales.push_back({.column_us = std::vector<double>(tile.cols, plan.spec.device.g_max_us)});
        }
    }
}

bool overlap(std::vector<Tile> list) {
    std::ranges::sort(list, {}, &Tile::first_row);
    for (std::size_t i = 0; i < list.size(); ++i) {
        for (std::size_t k = i + 1; k < list.size(); ++k) {
            if (list[k].first_row >= list[i].first_row + list[i].rows) break;
            if (list[k].first_col < list[i].first_col + list[i].cols &&
                list[i].first_col < list[k].first_col + list[k].cols)
                return true;
        }
    }
    return false;
}

[[noreturn]] void fail_region(std::size_t number, const std::string& text) {
    fail(ErrorCode::bad_data, fmt::format("region {}: {}", number, text));
}

void check_region(const Plan& plan, std::size_t number) {
    const auto& region = plan.regions[number];
    const auto& [first_row, rows, first_col, cols] = region.tile;
    if (region.matrix >= plan.matrices.size())
        fail_region(number,
                    fmt::format("no matrix {}; the plan has {}", region.matrix, plan.matrices.size()));
    const auto& matrix = plan.matrices[region.matrix];
    if (region.replica >= matrix.replicas)
        fail_region(number, fmt::format("no replica {}; the matrix has {}", region.replica, matrix.replicas));
    if (region.core >= core_count(plan.spec))
        fail_region(number,
                    fmt::format("core {}; the chip has {} cores", region.core, core_count(plan.spec)));
    const auto inside = [](std::size_t first, std::size_t count, std::size_t all) {
        return count > 0 && count <= all && first <= all - count;
    };
    if (!inside(first_row, rows, matrix.weights.rows()) || !inside(first_col, cols, matrix.weights.cols()))
        fail_region(
            number,
            fmt::format("rows {} + {}, columns {} + {} of a matrix of {} inputs and {} outputs", first_row,
                        rows, first_col, cols, matrix.weights.rows(), matrix.weights.cols()));
    const auto& core = plan.spec.core;
    if (!inside(region.row, rows, static_cast<std::size_t>(core.rows)) ||
        !inside(region.col, cols, static_cast<std::size_t>(core.cols)))
        fail_region(number, fmt::format("{} x {} cells at row {}, column {} of a core of {} x {}", rows, cols,
                                        region.row, region.col, core.rows, core.cols));
    if (plan.scales[number].column_us.size() != cols)
        fail_region(number, fmt::format("{} column conductances for {} columns; expected one per column",
                                        plan.scales[number].column_us.size(), cols));
    (void)device_ids(core, {.core = region.core}, 1);
}

// Checks that no two regions share a cell and that the tiles of each replica cover its matrix.
void check_cover(const Plan& plan) {
    std::map<std::uint32_t, std::vector<Tile>> cores;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Tile>> replicas;
    for (const auto& r : plan.regions) {
        cores[r.core].push_back({r.row, r.tile.rows, r.col, r.tile.cols});
        replicas[{r.matrix, r.replica}].push_back(r.tile);
    }
    for (const auto& [core, list] : cores) {
        if (overlap(list)) fail(ErrorCode::bad_data, fmt::format("core {}: two regions overlap", core));
    }
    for (std::uint32_t m = 0; m < plan.matrices.size(); ++m) {
        for (std::uint32_t r = 0; r < plan.matrices[m].replicas; ++r) {
            const auto& list = replicas[{m, r}];
            std::size_t cells = 0;
            for (const auto& tile : list) cells += tile.rows * tile.cols;
            if (cells != plan.matrices[m].weights.values().size() || overlap(list))
                fail(ErrorCode::bad_data,
                     fmt::format("replica {} of matrix {}: its tiles do not cover each weight once", r, m));
        }
    }
}

void check_matrix(const PlannedMatrix& matrix) {
    if (matrix.replicas < 1) fail(ErrorCode::bad_data, "a matrix with 0 replicas; expected at least 1");
    check_weights(matrix.weights);
    const auto& x = matrix.inputs;
    if (x.rows() > 0 && x.cols() != matrix.weights.rows())
        fail(ErrorCode::bad_data, fmt::format("calibration inputs of length {} for weights of {} inputs",
                                              x.cols(), matrix.weights.rows()));
    if (!std::ranges::all_of(x.values(), [](float v) { return std::isfinite(v); }))
        fail(ErrorCode::bad_data, "a calibration input is not finite");
}

}  // namespace

std::vector<Tile> tile_matrix(std::size_t inputs, std::size_t outputs, const CoreSpec& spec) {
    if (inputs == 0 || outputs == 0)
        fail(ErrorCode::bad_config,
             fmt::format("a matrix of {} inputs and {} outputs; expected at least one of each", inputs,
                         outputs));
    std::vector<Tile> tiles;
    const auto rows = even_parts(inputs, static_cast<std::size_t>(spec.rows));
    for (const auto& col : even_parts(outputs, static_cast<std::size_t>(spec.cols))) {
        for (const auto& row : rows) tiles.push_back({row.first, row.count, col.first, col.count});
    }
    return tiles;
}

Fields fields(PlacementConfig& c) {
    return {
        field("replicas", c.replicas,
              range::between(0, 65536, "Copies of the matrix on the chip; 0: the maximum that fits")),
        field("replication", c.replication,
              {.help = "Copies share the inputs, or all process every input and are averaged"}),
    };
}

void validate(const PlacementConfig& config) {
    PlacementConfig copy = config;
    check_ranges(fields(copy));
}

Plan place(const ChipSpec& spec, std::vector<Matrix<float>> matrices, const PlacementConfig& config) {
    validate(spec);
    validate(config);
    if (matrices.empty()) fail(ErrorCode::bad_config, "no matrix to place");
    Plan plan{.spec = spec};
    std::vector<std::vector<Tile>> tiles;
    std::size_t all = 0;
    for (auto& weights : matrices) {
        check_weights(weights);
        tiles.push_back(tile_matrix(weights.rows(), weights.cols(), spec.core));
        all += tiles.back().size();
        plan.matrices.push_back({.weights = std::move(weights), .replication = config.replication});
    }
    const std::size_t replicas = count_replicas(spec, all, config.replicas);
    if (replicas * all > core_count(spec))
        fail_too_few(spec, matrices_text(plan.matrices, replicas), replicas * all);
    for (std::uint32_t m = 0; m < plan.matrices.size(); ++m) {
        plan.matrices[m].replicas = replicas;
        place_matrix(m, tiles[m], plan);
    }
    return plan;
}

Plan place(const ChipSpec& spec, Matrix<float> weights, const PlacementConfig& config) {
    std::vector<Matrix<float>> one;
    one.push_back(std::move(weights));
    return place(spec, std::move(one), config);
}

void validate(const Plan& plan) {
    validate(plan.spec);
    if (plan.scales.size() != plan.regions.size())
        fail(ErrorCode::bad_data, fmt::format("{} scales for {} regions; expected one per region",
                                              plan.scales.size(), plan.regions.size()));
    for (const auto& matrix : plan.matrices) check_matrix(matrix);
    for (std::size_t r = 0; r < plan.regions.size(); ++r) check_region(plan, r);
    check_cover(plan);
}

std::size_t core_count(const ChipSpec& spec) {
    return static_cast<std::size_t>(spec.cores) * static_cast<std::size_t>(spec.chips);
}

std::size_t core_count(const Plan& plan) {
    std::set<std::uint32_t> cores;
    for (const auto& region : plan.regions) cores.insert(region.core);
    return cores.size();
}

Matrix<float> region_weights(const Plan& plan, const Region& region) {
    const auto& tile = region.tile;
    return copy_of(plan.matrices[region.matrix]
                       .weights.view()
                       .slice_rows(tile.first_row, tile.rows)
                       .slice_cols(tile.first_col, tile.cols));
}

Matrix<float> region_inputs(const Plan& plan, const Region& region) {
    return copy_of(
        plan.matrices[region.matrix].inputs.view().slice_cols(region.tile.first_row, region.tile.rows));
}

}  // namespace imka

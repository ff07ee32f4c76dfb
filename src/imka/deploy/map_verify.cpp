#include "imka/deploy/map_verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"

namespace imka {
namespace {

// A rectangle with its end: [top, bottom) x [left, right).
struct Box {
    std::size_t top = 0;
    std::size_t bottom = 0;
    std::size_t left = 0;
    std::size_t right = 0;
    std::size_t region = 0;
};

std::string region_text(const Mapping& mapping, std::size_t number) {
    const auto& r = mapping.regions[number];
    const auto name = r.matrix < mapping.matrices.size() ? in_quotes(mapping.matrices[r.matrix].shape.name)
                                                         : fmt::format("{}", r.matrix);
    return fmt::format("weights [{}, {}) x [{}, {}) of matrix {} at row {}, column {} of core {}",
                       r.tile.first_row, r.tile.first_row + r.tile.rows, r.tile.first_col,
                       r.tile.first_col + r.tile.cols, name, r.row, r.col, r.core);
}

[[noreturn]] void fail_region(const Mapping& mapping, std::size_t number, std::string_view what) {
    fail(ErrorCode::bad_data, fmt::format("{}: {}", region_text(mapping, number), what));
}

void check_range(const Mapping& mapping, std::size_t number) {
    const auto& r = mapping.regions[number];
    const auto& grid = mapping.grid;
    if (r.matrix >= mapping.matrices.size()) fail_region(mapping, number, "no such matrix");
    const auto& matrix = mapping.matrices[r.matrix];
    if (r.replica >= matrix.replicas)
        fail_region(mapping, number,
                    fmt::format("replica {}; the matrix has {}", r.replica, matrix.replicas));
    if (r.tile.rows == 0 || r.tile.cols == 0) fail_region(mapping, number, "no weights");
    const auto beyond = [](std::size_t first, std::size_t count, std::size_t all) {
        return first > all || count > all - first;
    };
    if (beyond(r.tile.first_row, r.tile.rows, matrix.shape.inputs) ||
        beyond(r.tile.first_col, r.tile.cols, matrix.shape.outputs))
        fail_region(mapping, number,
                    fmt::format("outside the matrix of {} inputs and {} outputs", matrix.shape.inputs,
                                matrix.shape.outputs));
    if (beyond(r.row, r.tile.rows, grid.rows) || beyond(r.col, r.tile.cols, grid.cols))
        fail_region(mapping, number, fmt::format("outside the core of {} x {}", grid.rows, grid.cols));
    if (r.core >= grid.cores * grid.chips)
        fail_region(mapping, number,
                    fmt::format("no such core; {} chips have {}", grid.chips, grid.cores * grid.chips));
}

// Sweeps from top to bottom with the open boxes sorted by their left sides: two boxes that share a cell are
// neighbours when the later one opens. Returns their regions.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(std::vector<Box> boxes) {
    std::vector<std::pair<std::size_t, std::size_t>> events;  // row and box; two per box
    for (std::size_t b = 0; b < boxes.size(); ++b) {
        events.emplace_back(2 * boxes[b].bottom, b);
        events.emplace_back(2 * boxes[b].top + 1, b);
    }
    std::ranges::sort(events);                // in a row, boxes end before others begin
    std::map<std::size_t, std::size_t> open;  // left side to box
    for (const auto& [key, b] : events) {
        const auto& box = boxes[b];
        if (key % 2 == 0) {
            open.erase(box.left);
            continue;
        }
        const auto next = open.lower_bound(box.left);
        if (next != open.end() && next->first < box.right)
            return std::pair(boxes[next->second].region, box.region);
        if (next != open.begin() && boxes[std::prev(next)->second].right > box.left)
            return std::pair(boxes[std::prev(next)->second].region, box.region);
        open.emplace(box.left, b);
    }
    return std::nullopt;
}

void check_cores(const Mapping& mapping) {
    std::map<std::uint32_t, std::vector<Box>> cores;
    for (std::size_t n = 0; n < mapping.regions.size(); ++n) {
        const auto& r = mapping.regions[n];
        cores[r.core].push_back({r.row, r.row + r.tile.rows, r.col, r.col + r.tile.cols, n});
    }
    for (const auto& [core, boxes] : cores) {
        if (const auto pair = find_overlap(boxes))
            fail_region(mapping, pair->first, "overlaps " + region_text(mapping, pair->second));
    }
}

// Tiles that do not overlap and have as many weights as the matrix cover it.
void check_weights(const Mapping& mapping) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Box>> copies;
    for (std::size_t n = 0; n < mapping.regions.size(); ++n) {
        const auto& r = mapping.regions[n];
        const auto& t = r.tile;
        copies[{r.matrix, r.replica}].push_back(
            {t.first_row, t.first_row + t.rows, t.first_col, t.first_col + t.cols, n});
    }
    for (std::uint32_t m = 0; m < mapping.matrices.size(); ++m) {
        const auto& matrix = mapping.matrices[m];
        for (std::uint32_t r = 0; r < matrix.replicas; ++r) {
            const auto& boxes = copies[{m, r}];
            std::size_t weights = 0;
            for (const auto& b : boxes) weights += (b.bottom - b.top) * (b.right - b.left);
            if (const auto pair = find_overlap(boxes))
                fail_region(mapping, pair->first,
                            "has weights that are also in " + region_text(mapping, pair->second));
            if (weights != matrix.shape.inputs * matrix.shape.outputs)
                fail(ErrorCode::bad_data, fmt::format("matrix {}, replica {}: {} of {} weights have a cell",
                                                      in_quotes(matrix.shape.name), r, weights,
                                                      matrix.shape.inputs * matrix.shape.outputs));
        }
    }
}

// A whole number from -8 to 8 that depends on all arguments.
int small_number(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    std::uint64_t x = a * 0x9E3779B97F4A7C15U + b * 0xC2B2AE3D27D4EB4FU + c * 0x165667B19E3779F9U + 1;
    x ^= x >> 29U;
    x *= 0xBF58476D1CE4E5B9U;
    x ^= x >> 32U;
    return static_cast<int>(x % 17) - 8;
}

int weight_at(std::uint32_t matrix, std::size_t row, std::size_t col) {
    return small_number(matrix, row, col);
}
int input_at(std::uint32_t matrix, std::size_t row) {
    return small_number(matrix, row, std::uint64_t{1} << 40U);
}

using Outputs = std::vector<std::int64_t>;

// Writes all regions of a core into one crossbar, then reads each: inputs on its rows, its columns added up.
void multiply_core(const Mapping& mapping, const std::vector<std::size_t>& regions,
                   std::map<std::pair<std::uint32_t, std::uint32_t>, Outputs>& outputs) {
    const auto cols = mapping.grid.cols;
    std::vector<signed char> cells(mapping.grid.rows * cols);
    for (const auto n : regions) {
        const auto& r = mapping.regions[n];
        for (std::size_t i = 0; i < r.tile.rows; ++i) {
            for (std::size_t j = 0; j < r.tile.cols; ++j)
                cells[(r.row + i) * cols + r.col + j] =
                    static_cast<signed char>(weight_at(r.matrix, r.tile.first_row + i, r.tile.first_col + j));
        }
    }
    for (const auto n : regions) {
        const auto& r = mapping.regions[n];
        auto& y = outputs[{r.matrix, r.replica}];
        y.resize(mapping.matrices[r.matrix].shape.outputs);
        for (std::size_t i = 0; i < r.tile.rows; ++i) {
            const auto x = input_at(r.matrix, r.tile.first_row + i);
            for (std::size_t j = 0; j < r.tile.cols; ++j)
                y[r.tile.first_col + j] += std::int64_t{x} * cells[(r.row + i) * cols + r.col + j];
        }
    }
}

Outputs expected_outputs(std::uint32_t matrix, const ListedMatrix& shape) {
    Outputs y(shape.outputs);
    for (std::size_t i = 0; i < shape.inputs; ++i) {
        const auto x = input_at(matrix, i);
        for (std::size_t j = 0; j < shape.outputs; ++j) y[j] += std::int64_t{x} * weight_at(matrix, i, j);
    }
    return y;
}

}  // namespace

void verify_legal(const Mapping& mapping) {
    for (std::size_t n = 0; n < mapping.regions.size(); ++n) check_range(mapping, n);
    check_cores(mapping);
    check_weights(mapping);
}

void verify_products(const Mapping& mapping) {
    verify_legal(mapping);
    if (mapping.grid.rows * mapping.grid.cols > std::size_t{1} << 26U)
        fail(ErrorCode::bad_config,
             fmt::format("cores of {} x {}; products are verified for at most 2^26 cells per core",
                         mapping.grid.rows, mapping.grid.cols));
    std::map<std::uint32_t, std::vector<std::size_t>> cores;
    for (std::size_t n = 0; n < mapping.regions.size(); ++n) cores[mapping.regions[n].core].push_back(n);
    std::map<std::pair<std::uint32_t, std::uint32_t>, Outputs> outputs;
    for (const auto& [core, regions] : cores) multiply_core(mapping, regions, outputs);
    for (std::uint32_t m = 0; m < mapping.matrices.size(); ++m) {
        const auto expected = expected_outputs(m, mapping.matrices[m].shape);
        for (std::uint32_t r = 0; r < mapping.matrices[m].replicas; ++r) {
            if (outputs[{m, r}] != expected)
                fail(ErrorCode::bad_data,
                     fmt::format("matrix {}, replica {}: products through the mapping differ from the matrix",
                                 in_quotes(mapping.matrices[m].shape.name), r));
        }
    }
}

}  // namespace imka

#include "imka/chip/tiling.hpp"

#include <fmt/format.h>

#include "imka/base/error.hpp"

namespace imka {
namespace {

struct Part {
    std::size_t first = 0;
    std::size_t count = 0;
};

// [0, n) in the fewest parts of at most `most`; sizes differ by at most 1.
std::vector<Part> even_parts(std::size_t n, std::size_t most) {
    const std::size_t parts = (n + most - 1) / most;
    std::vector<Part> out;
    for (std::size_t p = 0; p < parts; ++p) {
        const std::size_t first = p * n / parts;
        out.push_back({first, (p + 1) * n / parts - first});
    }
    return out;
}

}  // namespace

Tiling tile_matrix(std::size_t inputs, std::size_t outputs, const CoreSpec& spec) {
    if (inputs == 0 || outputs == 0)
        fail(ErrorCode::bad_config,
             fmt::format("a matrix of {} inputs and {} outputs; a chip needs one of each", inputs, outputs));
    Tiling tiling{.inputs = inputs, .outputs = outputs, .tiles = {}};
    const auto rows = even_parts(inputs, static_cast<std::size_t>(spec.rows));
    for (const auto& col : even_parts(outputs, static_cast<std::size_t>(spec.cols))) {
        for (const auto& row : rows) tiling.tiles.push_back({row.first, row.count, col.first, col.count});
    }
    return tiling;
}

}  // namespace imka

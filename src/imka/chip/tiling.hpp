// How a matrix is cut to the size of cores: outputs into groups of columns, inputs into groups of rows whose
// partial sums are added digitally.
#pragma once

#include <cstddef>
#include <vector>

#include "imka/chip/core.hpp"

namespace imka {

// A rectangle of the matrix (inputs x outputs) that one core holds.
struct Tile {
    std::size_t first_row = 0;
    std::size_t rows = 0;
    std::size_t first_col = 0;
    std::size_t cols = 0;
    bool operator==(const Tile&) const = default;
};

// Tiles of one group of columns follow each other, from the first inputs to the last.
struct Tiling {
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    std::vector<Tile> tiles;
};

// As few tiles as possible, all of nearly one size. Error{bad_config} for a matrix without inputs or outputs.
Tiling tile_matrix(std::size_t inputs, std::size_t outputs, const CoreSpec& spec);

}  // namespace imka

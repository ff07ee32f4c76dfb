// Assignment of values to threads in the products of features with a dense Ω: index maps that tests check
// without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/cuda/on_both.hpp"

namespace imka::ops::tiles {

// The direction at position `position` of Ω in memory. A thread has columns 2 q and 2 q + 1 of
// each product of eight columns; in this order the columns of two neighbouring products are four neighbouring
// directions.
IMKA_ON_BOTH constexpr std::uint32_t direction_at(std::uint32_t position) {
    const std::uint32_t column = position % 8;
    const std::uint32_t product = position / 8 % 2;
    return position / 16 * 16 + column / 2 * 4 + product * 2 + column % 2;
}

// Short rows: the index, out of 16, of the i-th value of thread `q`, one of the four threads of a row.
IMKA_ON_BOTH constexpr std::uint32_t value_of_thread(std::uint32_t q, std::uint32_t i) {
    return 2 * q + i % 2 + i / 2 * 8;
}

// Position of the halves of eight directions and the depth-th 16 values, in units of one load of a warp.
IMKA_ON_BOTH constexpr std::size_t short_place(std::size_t eight, std::size_t depth, std::size_t depths) {
    return eight * depths + depth;
}

// Long rows, of x and of Ω: tiles of 128 rows, so that a step of a block's product is one copy. A tile stores
// 16 values of all rows, then the next 16, in pieces of 8 rows x 8 values (cuda/matrix_unit.cuh).
inline constexpr std::uint32_t kTile = 128;
inline constexpr std::uint32_t kDepthHalves = kTile * 16;  // 16 values of a tile

// Index of the half of value k of row `row`; rows have `inner` values, a multiple of 16.
IMKA_ON_BOTH constexpr std::size_t half_at(std::size_t row, std::size_t k, std::size_t inner) {
    return row / kTile * kTile * inner + k / 16 * kDepthHalves + row % kTile / 8 * 128 + k % 16 / 8 * 64 +
           row % 8 * 8 + k % 8;
}

}  // namespace imka::ops::tiles

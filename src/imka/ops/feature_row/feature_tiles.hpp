// Which thread has which value in the products of features with a dense Ω: index maps that tests check
// without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define IMKA_ON_BOTH __host__ __device__
#else
#define IMKA_ON_BOTH
#endif

namespace imka::ops::tiles {

inline constexpr std::uint32_t kRows = 128;  // of x per block
inline constexpr std::uint32_t kDirections = 128;
inline constexpr std::uint32_t kInner = 32;  // halves of a row per step: 64 bytes, four chunks of 16
inline constexpr std::uint32_t kWarpRows = 64;

// Byte of chunk `chunk` of row `row` in a step in shared memory. Eight rows of one chunk lie in different
// banks.
IMKA_ON_BOTH constexpr std::uint32_t byte_of(std::uint32_t row, std::uint32_t chunk) {
    return row * 64 + ((chunk ^ ((row >> 1U) & 3U)) << 4U);
}

// The direction at position `position` of Ω in memory. A thread has columns 2 q and 2 q + 1 of each product
// of eight columns; in this order the columns of two neighbouring products are four neighbouring directions.
IMKA_ON_BOTH constexpr std::uint32_t direction_at(std::uint32_t position) {
    const std::uint32_t column = position % 8;
    const std::uint32_t product = position / 8 % 2;
    return position / 16 * 16 + column / 2 * 4 + product * 2 + column % 2;
}

// Rows and chunks that the lanes of a warp name to load 16 x 16 halves (ldmatrix): of x, and of two products'
// columns of Ω.
IMKA_ON_BOTH constexpr std::uint32_t row_of_lane(std::uint32_t lane) {
    return lane % 16;
}
IMKA_ON_BOTH constexpr std::uint32_t chunk_of_lane(std::uint32_t lane) {
    return lane / 16;
}
IMKA_ON_BOTH constexpr std::uint32_t direction_of_lane(std::uint32_t lane) {
    return lane % 8 + lane / 16 * 8;
}
IMKA_ON_BOTH constexpr std::uint32_t direction_chunk_of_lane(std::uint32_t lane) {
    return lane / 8 % 2;
}

// Short rows: the value of each 16 that thread `q` of the four of a row has as its i-th.
IMKA_ON_BOTH constexpr std::uint32_t value_of_thread(std::uint32_t q, std::uint32_t i) {
    return 2 * q + i % 2 + i / 2 * 8;
}

// Where the halves of eight directions and the depth-th 16 values are, in units of what a warp loads at once.
IMKA_ON_BOTH constexpr std::size_t short_place(std::size_t eight, std::size_t depth, std::size_t depths) {
    return eight * depths + depth;
}

}  // namespace imka::ops::tiles

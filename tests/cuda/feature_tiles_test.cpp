// The index maps of the products on the matrix units, checked without a GPU.
#include "imka/ops/feature_row/feature_tiles.hpp"

#include <gtest/gtest.h>

#include <set>

namespace imka::ops {
namespace {

TEST(FeatureTiles, DirectionsArePermutedWithinGroupsOf16) {
    std::set<std::uint32_t> seen;
    for (std::uint32_t position = 0; position < 256; ++position) {
        const auto direction = tiles::direction_at(position);
        EXPECT_EQ(direction / 16, position / 16);
        seen.insert(direction);
    }
    EXPECT_EQ(seen.size(), 256U);
}

TEST(FeatureTiles, EveryHalfOfLongRowsHasItsPlace) {
    constexpr std::size_t kInner = 192;
    constexpr std::size_t kRows = std::size_t{2} * tiles::kTile;
    std::set<std::size_t> places;
    for (std::size_t row = 0; row < kRows; ++row) {
        for (std::size_t k = 0; k < kInner; ++k) places.insert(tiles::half_at(row, k, kInner));
    }
    EXPECT_EQ(places.size(), kRows * kInner);
    EXPECT_EQ(*places.rbegin(), kRows * kInner - 1);
}

// A factor in shared memory (cuda::pieces_at): pieces of 8 rows x 16 bytes, 128 bytes to the next 16 bytes of
// the same rows, 256 to the next rows.
TEST(FeatureTiles, HalvesOfAStepAreWhereTheMatrixUnitsReadThem) {
    constexpr std::size_t kInner = 128;
    for (std::size_t row = tiles::kTile; row < std::size_t{2} * tiles::kTile; ++row) {
        for (std::size_t k = 0; k < kInner; ++k) {
            const std::size_t group = row % tiles::kTile / 64;  // of 64 rows: half of the 16 values of a tile
            const std::size_t first =
                2 * (tiles::kTile * kInner + k / 16 * tiles::kDepthHalves + group * tiles::kDepthHalves / 2);
            const std::size_t byte = row % 64 / 8 * 256 + k % 16 / 8 * 128 + row % 8 * 16 + k % 8 * 2;
            ASSERT_EQ(2 * tiles::half_at(row, k, kInner), first + byte) << row << ", " << k;
        }
    }
}

TEST(FeatureTiles, AThreadHasFourNeighbouringDirections) {
    for (std::uint32_t pair = 0; pair < 2; ++pair) {
        for (std::uint32_t q = 0; q < 4; ++q) {
            for (std::uint32_t c = 0; c < 4; ++c) {
                // Column 2 q + c % 2 of product 2 pair + c / 2, as the epilogue reads it.
                const std::uint32_t position = 16 * pair + c / 2 * 8 + 2 * q + c % 2;
                EXPECT_EQ(tiles::direction_at(position), 16 * pair + 4 * q + c);
            }
        }
    }
}

TEST(FeatureTiles, FourThreadsHaveTheValuesOfAShortRowAsTheMatrixUnitsWantThem) {
    std::set<std::uint32_t> seen;
    for (std::uint32_t q = 0; q < 4; ++q) {
        for (std::uint32_t i = 0; i < 4; ++i) {
            // Halves 2 q and 2 q + 1, then those eight later (matrix_unit.cuh).
            EXPECT_EQ(tiles::value_of_thread(q, i), 2 * q + i % 2 + (i < 2 ? 0 : 8));
            seen.insert(tiles::value_of_thread(q, i));
        }
    }
    EXPECT_EQ(seen.size(), 16U);
    EXPECT_EQ(*seen.rbegin(), 15U);
}

}  // namespace
}  // namespace imka::ops

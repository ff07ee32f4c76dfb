// The index maps of the products on the matrix units, checked without a GPU: a model of the kernel for one
// block, value by value, gives the product of the matrices.
#include "imka/ops/feature_row/feature_tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace imka::ops {
namespace {

TEST(FeatureTiles, ChunksOfAStepAreAllDifferentAndAligned) {
    std::set<std::uint32_t> places;
    for (std::uint32_t row = 0; row < tiles::kRows; ++row) {
        for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
            const auto byte = tiles::byte_of(row, chunk);
            EXPECT_EQ(byte % 16, 0U);
            EXPECT_LT(byte, tiles::kRows * tiles::kInner * 2);
            places.insert(byte);
        }
    }
    EXPECT_EQ(places.size(), tiles::kRows * 4);
}

TEST(FeatureTiles, EightRowsOfAChunkLieInDifferentBanks) {
    for (std::uint32_t row = 0; row < tiles::kRows; row += 8) {
        for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
            std::set<std::uint32_t> banks;
            for (std::uint32_t i = 0; i < 8; ++i) banks.insert(tiles::byte_of(row + i, chunk) % 128 / 16);
            EXPECT_EQ(banks.size(), 8U);
        }
    }
}

TEST(FeatureTiles, DirectionsArePermutedWithinGroupsOf16) {
    std::set<std::uint32_t> seen;
    for (std::uint32_t position = 0; position < 256; ++position) {
        const auto direction = tiles::direction_at(position);
        EXPECT_EQ(direction / 16, position / 16);
        seen.insert(direction);
    }
    EXPECT_EQ(seen.size(), 256U);
}

// ldmatrix: lane l names the row of eight halves that all lanes read as row l % 8 of matrix l / 8; lane 4 g +
// q then has halves 2 q, 2 q + 1 of row g.
struct LoadedHalf {
    std::uint32_t row;
    std::uint32_t k;
};
template <class RowOf, class ChunkOf>
LoadedHalf loaded(std::uint32_t lane, std::uint32_t matrix, std::uint32_t half, const RowOf& row_of,
                  const ChunkOf& chunk_of) {
    const std::uint32_t named_by = matrix * 8 + lane / 4;
    return {row_of(named_by), chunk_of(named_by) * 8 + lane % 4 * 2 + half};
}

TEST(FeatureTiles, LanesHaveTheOperandsOfTheMatrixUnits) {
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const std::uint32_t g = lane / 4;
        const std::uint32_t q = lane % 4;
        for (std::uint32_t half = 0; half < 2; ++half) {
            for (std::uint32_t matrix = 0; matrix < 4; ++matrix) {
                // a: rows g and g + 8, then eight halves later (matrix_unit.cuh).
                const auto a = loaded(lane, matrix, half, tiles::row_of_lane, tiles::chunk_of_lane);
                EXPECT_EQ(a.row, g + matrix % 2 * 8);
                EXPECT_EQ(a.k, 2 * q + half + matrix / 2 * 8);
                // b of two products: column g, then eight halves later.
                const auto b =
                    loaded(lane, matrix, half, tiles::direction_of_lane, tiles::direction_chunk_of_lane);
                EXPECT_EQ(b.row, g + matrix / 2 * 8);
                EXPECT_EQ(b.k, 2 * q + half + matrix % 2 * 8);
            }
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
            // Halves 2 q and 2 q + 1, then eight later (matrix_unit.cuh).
            EXPECT_EQ(tiles::value_of_thread(q, i), 2 * q + i % 2 + (i < 2 ? 0 : 8));
            seen.insert(tiles::value_of_thread(q, i));
        }
    }
    EXPECT_EQ(seen.size(), 16U);
    EXPECT_EQ(*seen.rbegin(), 15U);
}

}  // namespace
}  // namespace imka::ops

// The verifier finds every way in which a mapping can be wrong.
#include "imka/deploy/map_verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/deploy/map.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

// Two tiles of 'a' on core 0 and 1, 'b' next to the first.
Mapping example() {
    Mapping m;
    m.grid = {.rows = 8, .cols = 8, .cores = 4, .chips = 1};
    m.matrices = {{.shape = {.name = "a", .inputs = 12, .outputs = 4}},
                  {.shape = {.name = "b", .inputs = 8, .outputs = 4}}};
    m.regions = {{.matrix = 0, .core = 0, .tile = {0, 8, 0, 4}},
                 {.matrix = 0, .core = 1, .row = 2, .col = 3, .tile = {8, 4, 0, 4}},
                 {.matrix = 1, .core = 0, .col = 4, .tile = {0, 8, 0, 4}}};
    return m;
}

std::string problem(const std::function<void(Mapping&)>& change) {
    auto mapping = example();
    change(mapping);
    return error_of([&] { verify_products(mapping); });
}

TEST(MapVerify, AcceptsALegalMapping) {
    EXPECT_EQ(problem([](Mapping&) {}), "no error");
}

TEST(MapVerify, FindsRegionsOutOfRange) {
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].row = 5; }), HasSubstr("outside the core of 8 x 8"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].col = 4294967295U; }), HasSubstr("outside the core"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].core = 4; }), HasSubstr("no such core"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].tile.first_row = 9; }),
                HasSubstr("outside the matrix"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].tile.rows = ~std::size_t{0}; }),
                HasSubstr("outside the matrix"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].tile.rows = 0; }), HasSubstr("no weights"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].matrix = 2; }), HasSubstr("no such matrix"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].replica = 1; }),
                HasSubstr("replica 1; the matrix has 1"));
}

TEST(MapVerify, FindsSharedCells) {
    EXPECT_THAT(
        problem([](Mapping& m) { m.regions[2].col = 3; }),
        HasSubstr("weights [0, 8) x [0, 4) of matrix 'a' at row 0, column 0 of core 0: overlaps weights "
                  "[0, 8) x [0, 4) of matrix 'b'"));
    // One inside the other, and crossing bars.
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].core = 0; }), HasSubstr("overlaps"));
}

TEST(MapVerify, FindsWeightsWithoutACellOrWithTwo) {
    EXPECT_THAT(problem([](Mapping& m) { m.regions.pop_back(); }),
                HasSubstr("matrix 'b', replica 0: 0 of 32 weights have a cell"));
    EXPECT_THAT(problem([](Mapping& m) { m.matrices[1].replicas = 2; }), HasSubstr("replica 1: 0 of 32"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].tile.first_row = 7; }),
                HasSubstr("has weights that are also in"));
    EXPECT_THAT(problem([](Mapping& m) { m.regions[1].tile.rows = 3; }), HasSubstr("44 of 48 weights"));
}

// Every single change of a number is found, for real mappings too.
TEST(MapVerify, FindsAnyMovedRegionOfAFullCore) {
    const auto result = map_matrices(parse_shapes("8x4 8x4 4x8 4x8"), {.rows = 8, .cols = 8, .cores = 2});
    ASSERT_EQ(result.cores, 2U);
    verify_products(result.mapping);
    for (std::size_t r = 0; r < result.mapping.regions.size(); ++r) {
        auto moved = result.mapping;
        moved.regions[r].core = 1 - moved.regions[r].core;
        EXPECT_NE(error_of([&] { verify_products(moved); }), "no error") << r;
    }
}

TEST(MapVerify, LimitsTheSizeOfCores) {
    auto mapping = example();
    mapping.grid.rows = 65536;
    mapping.grid.cols = 65536;
    EXPECT_THAT(error_of([&] { verify_products(mapping); }), HasSubstr("at most 2^26 cells"));
}

}  // namespace
}  // namespace imka

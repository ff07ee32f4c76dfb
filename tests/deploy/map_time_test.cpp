// The objectives least time and least energy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "imka/deploy/map.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/schedule.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Schedule cores_only(const MatrixList& list, const Mapping& mapping) {
    return make_schedule(pipeline_of(list), mapping, chip_preset("hermes"), cost_data(), {.digital = false});
}

// Makespan within 10 % of the bound of the chosen copies (the critical path, or the work of a core where
// copies of the whole network share cores), and far below that of the fewest cores.
TEST(MapTime, ReachesTheBoundOfPerformers) {
    for (const auto* name : {"performer-aan", "performer-cifar10", "performer-imdb", "performer-listops",
                             "performer-pathfinder"}) {
        SCOPED_TRACE(name);
        const auto list = known_network(name).matrices;
        const auto fast = map_matrices(list, {}, {.objective = Objective::least_time, .chips = 1});
        verify_products(fast.mapping);
        EXPECT_LE(fast.cores, 64U);
        const auto schedule = cores_only(list, fast.mapping);
        verify_schedule(schedule, pipeline_of(list), fast.mapping, chip_preset("hermes"));
        EXPECT_LE(schedule.makespan_seconds, 1.1 * schedule.bound.seconds);
        EXPECT_LT(20 * schedule.makespan_seconds,
                  cores_only(list, map_matrices(list, {}).mapping).makespan_seconds);
    }
}

TEST(MapTime, SharesCoresOnlyBetweenMatricesThatWorkOneAfterAnother) {
    const MatrixList parallel = {{"a", 64, 64, 1, 10, {{{}, {}}}}, {"b", 64, 64, 1, 10, {{{}, {}}}}};
    const CoreGrid two{.cores = 2};
    const MapOptions options{.objective = Objective::least_time, .chips = 1};
    const auto apart = map_matrices(parallel, two, options).mapping;
    EXPECT_NE(apart.regions[0].core, apart.regions[1].core);
    // One after the other: both use both cores.
    const auto chain = map_matrices(parse_shapes("64x64@10 64x64@10"), two, options);
    EXPECT_EQ(chain.cores, 2U);
    EXPECT_EQ(chain.mapping.matrices[0].replicas, 2U);
    EXPECT_EQ(chain.mapping.matrices[1].replicas, 2U);
    verify_products(chain.mapping);
}

TEST(MapTime, UsesTheOrderOfAPipeline) {
    const auto list = parse_shapes("64x64@10 64x64@10");
    Pipeline pipeline;  // both at once
    for (std::uint32_t m = 0; m < 2; ++m)
        pipeline.steps.push_back({.name = "s", .op = "MatMul", .inputs = {}, .matrices = {m}, .rows = 10});
    const auto result = map_matrices(list, {.cores = 2}, pipeline, {.objective = Objective::least_time});
    EXPECT_NE(result.mapping.regions[0].core, result.mapping.regions[1].core);
    EXPECT_EQ(result.mapping.matrices[0].replicas, 1U);
}

TEST(MapTime, GivesCopiesToTheSlowestMatrix) {
    const MatrixList list = {{"slow", 64, 64, 1, 100, {{{}, {}}}}, {"fast", 64, 64, 1, 10, {{{}, {}}}}};
    const auto result = map_matrices(list, {.cores = 11}, {.objective = Objective::least_time, .chips = 1});
    EXPECT_EQ(result.mapping.matrices[0].replicas, 10U);
    EXPECT_EQ(result.mapping.matrices[1].replicas, 1U);
}

// Small networks: a copy of the whole network on every core is faster than separate cores for each matrix.
TEST(MapTime, FillsTheChipWithCopiesWhereThatIsFaster) {
    const auto list = known_network("performer-listops").matrices;
    const auto fast = map_matrices(list, {}, {.objective = Objective::least_time, .chips = 1});
    const auto filled = map_matrices(list, {}, {.chips = 1, .replicas = 0});
    EXPECT_DOUBLE_EQ(cores_only(list, fast.mapping).makespan_seconds,
                     cores_only(list, filled.mapping).makespan_seconds);
}

// Where separate cores for each matrix do not fit, the densest mapping is used.
TEST(MapTime, FallsBackToTheDensestMapping) {
    const MatrixList list = {{"a", 128, 256, 1, 10, {{{}, {}}}}, {"b", 128, 256, 1, 10, {{{}, {}}}}};
    const auto result = map_matrices(list, {.cores = 1}, {.objective = Objective::least_time, .chips = 1});
    EXPECT_EQ(result.cores, 1U);
}

TEST(MapTime, RefusesWhatDoesNotFit) {
    const auto error = [](const MapOptions& options) {
        return error_of([&] { map_matrices(parse_shapes("512x512@4"), {.cores = 3}, options); });
    };
    const auto time = Objective::least_time;
    EXPECT_THAT(
        error({.objective = time, .chips = 1}),
        HasSubstr("need at least 4 cores (tightest constraint: area) of 256 x 256; 3 available on 1 chip"));
    EXPECT_EQ(error({.objective = time}), "no error");
    EXPECT_THAT(error({.objective = time, .replicas = 2}), HasSubstr("excludes replicas"));
    EXPECT_THAT(error({.objective = time, .core_products = 5}), HasSubstr("limit of products per core"));
    EXPECT_THAT(error({.objective = time, .cuts = Cuts::free}), HasSubstr("needs grid cuts"));
    EXPECT_THAT(error({.objective = Objective::least_energy, .cuts = Cuts::free}),
                HasSubstr("needs grid cuts"));
}

// A product costs the same however much of the core it uses, so only the number of tiles matters, not the
// packing.
TEST(MapEnergy, IsThatOfTheFewestTiles) {
    const auto list = known_network("performer-aan").matrices;
    const auto products = [](const Mapping& mapping) {
        double sum = 0.0;
        for (const auto& use : core_uses(mapping)) sum += use.products;
        return sum;
    };
    const auto least = map_matrices(list, {}, {.objective = Objective::least_energy});
    EXPECT_EQ(least.mapping, map_matrices(list, {}).mapping);
    double tiles = 0.0;
    for (const auto& m : list) tiles += static_cast<double>(grid_tiles(m, {}).size() * m.calls * m.vectors);
    EXPECT_EQ(products(least.mapping), tiles);
    EXPECT_GT(products(map_matrices(list, {}, {.cuts = Cuts::free}).mapping), tiles);
    const auto fast = map_matrices(list, {}, {.objective = Objective::least_time});
    EXPECT_NEAR(products(fast.mapping), tiles, 1e-6);
}

}  // namespace
}  // namespace imka

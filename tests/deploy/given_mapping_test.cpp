// Models placed with a mapping from a file.
#include "imka/deploy/given_mapping.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "deploy/models.hpp"
#include "imka/base/file.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/mapping_file.hpp"
#include "imka/deploy/plan_file.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

const Exec kMappingExec{.threads = 2};

TEST(GivenMapping, HasTheBitsOfTheDeploymentItComesFrom) {
    const auto graph = small_network();
    auto spec = chip_preset("hermes");
    spec.core.rows = 8;  // several tiles per matrix
    spec.core.cols = 8;
    const auto inputs = inputs_of(graph, 300, 11);
    const TempDir dir;
    const auto plan = [&](const DeployOptions& options) {
        save_model(dir / "a.plan",
                   deploy(place_model(graph, spec, options), spec, {}, inputs, 7, kMappingExec));
        return read_file(dir / "a.plan", 1 << 24);
    };
    const DeployOptions packed{.map = {.cuts = Cuts::free, .replicas = 2}};
    const auto placed = place_model(graph, spec, packed).result.mapping;
    save_mapping(dir / "m.json", placed);
    EXPECT_EQ(plan({.mapping = load_mapping(dir / "m.json", grid_of(spec))}), plan(packed));
    EXPECT_NE(plan({}), plan(packed)) << "the mapping makes a difference";
}

TEST(GivenMapping, FindsMatricesInAnyOrderAndByTheNameOfTheirWeights) {
    const auto graph = small_network();
    const auto spec = chip_preset("hermes");
    const auto placed = place_model(graph, spec, {}).result;
    auto turned = placed.mapping;
    std::ranges::reverse(turned.matrices);
    for (auto& r : turned.regions) r.matrix = 2 - r.matrix;
    turned.matrices[1].weight = turned.matrices[1].shape.name;
    turned.matrices[1].shape.name = "encoder.linear";
    turned.matrices[1].shape.vectors = 5;
    const auto given = place_model(graph, spec, {.mapping = turned}).result;
    EXPECT_EQ(given.mapping, placed.mapping) << "calls and vectors are those of the model";
    EXPECT_EQ(given.cores, placed.cores);
    EXPECT_EQ(given.bound.reason, "area");
    EXPECT_EQ(given.one_tile_cores, 3U);
}

TEST(GivenMapping, RefusesWhatDoesNotFitTheModel) {
    const auto graph = small_network();
    const auto spec = chip_preset("hermes");
    const auto good = place_model(graph, spec, {}).result.mapping;
    const auto error = [&](const std::function<void(Mapping&)>& change, const std::string& on_chip = "all") {
        auto mapping = good;
        change(mapping);
        return error_of([&] { (void)place_model(graph, spec, {.on_chip = on_chip, .mapping = mapping}); });
    };
    EXPECT_EQ(error([](Mapping&) {}), "no error");
    EXPECT_THAT(
        error([](Mapping& m) { m.matrices[1].shape.name = "w4", m.matrices[1].weight = ""; }),
        HasSubstr("bad_data: the mapping places a matrix 'w4', which is not one of the 3 matrices for "
                  "the chip; nearest: w1"));
    EXPECT_THAT(error([](Mapping&) {}, "w1,w2"),
                HasSubstr("places a matrix 'w3', which is not one of the 2"));
    EXPECT_THAT(error([](Mapping& m) { m.matrices.pop_back(), m.regions.pop_back(); }),
                HasSubstr("the mapping does not place matrix 'w3'"));
    EXPECT_THAT(error([](Mapping& m) { m.matrices[2].shape.name = "w1"; }),
                HasSubstr("places matrix 'w1' twice"));
    EXPECT_THAT(error([](Mapping& m) { m.matrices[0].shape.inputs = 21; }),
                HasSubstr("matrix 'w1' is 20 x 12; the mapping places 21 x 12 weights"));
    EXPECT_THAT(
        error([](Mapping& m) { m.regions[1].row = m.regions[0].row, m.regions[1].col = m.regions[0].col; }),
        HasSubstr("overlaps"));
    EXPECT_THAT(error([](Mapping& m) { m.regions[1].tile.rows = 5; }), HasSubstr("weights have a cell"));
    EXPECT_THAT(error([](Mapping& m) { m.grid.rows = 128; }),
                HasSubstr("the mapping is for 64 cores of 128 x 256 per chip; the chip has 64 of 256 x 256"));
}

}  // namespace
}  // namespace imka

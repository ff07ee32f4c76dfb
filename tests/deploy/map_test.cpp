// Mappings are verified, as small as known, deterministic, and refused with a reason.
#include "imka/deploy/map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/base/random.hpp"
#include "imka/chip/programmed_chip.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/map_verify.hpp"
#include "instances.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;

MapResult verified_map(const MatrixList& list, const MapOptions& options) {
    auto result = map_matrices(list, {}, options);
    verify_products(result.mapping);
    return result;
}

// The number of cores with one tile each, and the best known number, which is proven to be optimal.
TEST(Map, ReachesTheBestKnownNumberOfEveryNetwork) {
    struct Case {
        const char* name;
        std::size_t one_tile;
        std::size_t best;
    };
    for (const auto& c :
         {Case{"ad", 14, 5}, Case{"ic", 15, 2}, Case{"ks", 6, 1}, Case{"mobilenetv2-cifar", 91, 33},
          Case{"resnet32-cifar", 60, 8}, Case{"resnet18-in", 201, 179}, Case{"resnet50-in", 422, 390},
          Case{"mobilenetv2-in", 106, 53}}) {
        const auto network = known_network(c.name);
        EXPECT_EQ(network.known_cores, c.best) << c.name;
        const auto result = verified_map(network.matrices, {});
        EXPECT_EQ(result.one_tile_cores, c.one_tile) << c.name;
        EXPECT_EQ(result.cores, c.best) << c.name;
        EXPECT_TRUE(result.optimal()) << c.name << ": bound " << result.bound.bins;
    }
}

TEST(Map, NeedsFewerCoresThanTheReleasedMappingsOfPerformers) {
    struct Case {
        const char* name;
        std::size_t grid;
        std::size_t free;
        std::size_t released;
    };
    for (const auto& c :
         {Case{"performer-aan", 3, 2, 8}, Case{"performer-cifar10", 2, 2, 2}, Case{"performer-imdb", 2, 2, 2},
          Case{"performer-listops", 1, 1, 2}, Case{"performer-pathfinder", 3, 3, 8}}) {
        const auto network = known_network(c.name);
        EXPECT_EQ(network.released_cores, c.released) << c.name;
        const auto grid = verified_map(network.matrices, {});
        EXPECT_LE(grid.cores, c.grid) << c.name;
        const auto free = verified_map(network.matrices, {.cuts = Cuts::free});
        EXPECT_LE(free.cores, c.free) << c.name;
        EXPECT_TRUE(free.optimal()) << c.name;
    }
}

MatrixList random_list(std::uint64_t seed) {
    Draw draw{.seed = seed};
    MatrixList list;
    const auto count = draw.between(1, 12);
    for (std::uint32_t m = 0; m < count; ++m)
        list.push_back({"m" + std::to_string(m), draw.log_uniform(700.0), draw.log_uniform(700.0),
                        draw.between(1, 3), draw.between(1, 9)});
    return list;
}

TEST(Map, OfRandomMatricesIsLegalAndEquivalent) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const auto list = random_list(seed);
        const CoreGrid grid{.rows = 40 + 13 * (seed % 7), .cols = 100 - 11 * (seed % 5), .cores = 4};
        for (const auto cuts : {Cuts::grid, Cuts::free}) {
            const MapOptions options{.cuts = cuts, .replicas = 1 + seed % 3, .seed = seed};
            const auto result = map_matrices(list, grid, options);
            verify_products(result.mapping);
            EXPECT_EQ(result.cores, cores_used(result.mapping)) << seed;
            EXPECT_LE(result.bound.bins, result.cores) << seed;
            EXPECT_LE(result.cores, result.one_tile_cores) << seed;
            EXPECT_EQ(result.mapping.grid.chips, (result.cores + 3) / 4) << seed;
            EXPECT_EQ(map_matrices(list, grid, options).mapping, result.mapping) << seed;
        }
    }
}

TEST(Map, PlacesSharedWeightsOnce) {
    const auto result = map_matrices(parse_shapes("64x64*4"), {});
    EXPECT_EQ(result.mapping.regions.size(), 1U);
    EXPECT_EQ(core_uses(result.mapping)[0].products, 4.0);
}

TEST(Map, ReplicasDivideTheWorkOfTheBusiestCore) {
    const auto list = parse_shapes("200x200@10 100x100@30");
    const auto most = [](const MapResult& r) {
        double value = 0.0;
        for (const auto& use : core_uses(r.mapping)) value = std::max(value, use.products);
        return value;
    };
    const auto one = map_matrices(list, {}, {});
    const auto filled = map_matrices(list, {}, {.replicas = 0});
    const auto copies = 64 / one.cores;
    EXPECT_EQ(filled.mapping.matrices[0].replicas, copies);
    EXPECT_LE(filled.cores, 64U);
    EXPECT_DOUBLE_EQ(most(filled), most(one) / static_cast<double>(copies));
    verify_products(filled.mapping);
}

TEST(Map, MeetsALimitOfProductsPerCore) {
    const auto list = parse_shapes("64x64@1000 64x128@1000 300x64@100");
    const auto result = map_matrices(list, {}, {.core_products = 400.0});
    verify_products(result.mapping);
    EXPECT_EQ(result.mapping.matrices[0].replicas, 3U);
    EXPECT_EQ(result.mapping.matrices[2].replicas, 1U);
    for (const auto& use : core_uses(result.mapping)) EXPECT_LE(use.products, 400.0 * (1 + 1e-9));
    // Six copies of 333 products each: no two fit on one core, and then no core has room for 100.
    EXPECT_EQ(result.cores, 7U);
    EXPECT_TRUE(result.optimal());
    EXPECT_EQ(result.bound.reason, "exact search");
}

TEST(Map, RefusalNamesConstraintAmountAndChange) {
    const auto error = [](const char* shapes, const CoreGrid& grid, const MapOptions& options) {
        return error_of([&] { map_matrices(parse_shapes(shapes), grid, options); });
    };
    EXPECT_THAT(
        error("2560x512", {.cores = 8}, {.chips = 2}),
        AllOf(HasSubstr("bad_config: the matrices need at least 20 cores (tightest constraint: area) of "
                        "256 x 256; 16 available on 2 chips, 4 missing"),
              HasSubstr("possible changes: 3 chips")));
    // Four squares of just over half a side: 1.04 cores of area, four by shape.
    EXPECT_THAT(
        error("131x131 131x131 131x131 131x131", {.cores = 2}, {.chips = 1}),
        AllOf(HasSubstr("at least 4 cores (tightest constraint: tiles of more than half a core in both "
                        "directions)"),
              HasSubstr("2 missing; possible changes: free cuts (2 cores), or 2 chips")));
    EXPECT_THAT(error("256x256", {.cores = 4}, {.chips = 1, .replicas = 9}),
                HasSubstr("4 replicas, or 3 chips"));
    const auto slower = error("64x64@1000", {.cores = 2}, {.chips = 1, .core_products = 100.0});
    EXPECT_THAT(slower, AllOf(HasSubstr("at least 10 cores (tightest constraint: products per core)"),
                              HasSubstr(" of the throughput, or 5 chips")));
    const std::string fits = "possible changes: ";
    const auto share = std::stod(slower.substr(slower.find(fits) + fits.size()));
    EXPECT_GT(share, 0.15) << "0.2 is the most: 500 products on each of two cores";
    EXPECT_EQ(error("64x64@1000", {.cores = 2}, {.chips = 1, .core_products = 100.0 / share}), "no error");
}

TEST(Map, RefusesBadOptions) {
    const auto error = [](const CoreGrid& grid, const MapOptions& options) {
        return error_of([&] { map_matrices(parse_shapes("4x4@100"), grid, options); });
    };
    EXPECT_THAT(error({.rows = 0}, {}), HasSubstr("rows of a core: 0"));
    EXPECT_THAT(error({.cores = 70000}, {}), HasSubstr("cores: 70000"));
    EXPECT_THAT(error({}, {.core_products = -1.0}), HasSubstr("core_products: -1 is out of range"));
    EXPECT_THAT(error({}, {.chips = 65537}), HasSubstr("chips: 65537 is out of range"));
    EXPECT_THAT(error({}, {.replicas = 2, .core_products = 5.0}), HasSubstr("excludes replicas"));
    EXPECT_THAT(error({}, {.core_products = 1e-9}), HasSubstr("more than 65536 tiles"));
    EXPECT_THAT(error_of([] { map_matrices(parse_shapes("16000000x16000000"), {}); }),
                HasSubstr("more than 65536 tiles"));
}

Matrix<float> random_weights(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<float> w(rows, cols);
    fill_normal(seed, Stream::test, 0, w.values());
    return w;
}

// An ideal chip programmed from the mapping gives the products of the matrices.
TEST(Map, PlansMultiplyOnTheEmulator) {
    const auto spec = chip_preset("ideal");
    const auto list = parse_shapes("300x70 64x64 100x280");
    for (const auto cuts : {Cuts::grid, Cuts::free}) {
        const auto mapping = map_matrices(list, grid_of(spec), {.cuts = cuts, .replicas = 2}).mapping;
        std::vector<Matrix<float>> weights;
        std::vector<Matrix<float>> inputs;
        for (const auto& m : list) {
            weights.push_back(random_weights(m.inputs, m.outputs, 1));
            inputs.push_back(random_weights(8, m.inputs, 2));
        }
        auto plan = plan_of(mapping, spec, weights);
        for (std::uint32_t m = 0; m < list.size(); ++m)
            plan = calibrated(std::move(plan), {.matrix = m, .sample = inputs[m].view()}, {});
        const auto chip = program(std::move(plan), 1, {}, {});
        const auto driver = make_emulator(chip, Simulator::fast, {});
        for (std::uint32_t m = 0; m < list.size(); ++m) {
            Matrix<float> y(8, list[m].outputs);
            driver->multiply(m, inputs[m].view(), {}, {}, y.view());
            const auto exact = digital_products(weights[m], inputs[m].view(), {});
            double error = 0.0;
            double size = 0.0;
            for (std::size_t k = 0; k < y.values().size(); ++k) {
                error += std::pow(y.values()[k] - exact.values()[k], 2);
                size += std::pow(exact.values()[k], 2);
            }
            EXPECT_LT(std::sqrt(error / size), 0.03) << m;
        }
    }
}

TEST(Map, PlansNeedMatchingWeightsAndChips) {
    const auto spec = chip_preset("ideal");
    const auto mapping = map_matrices(parse_shapes("30x7"), grid_of(spec)).mapping;
    EXPECT_THAT(error_of([&] { plan_of(mapping, spec, {}); }),
                HasSubstr("0 weight matrices for a mapping of 1"));
    std::vector<Matrix<float>> wrong;
    wrong.emplace_back(7, 30);
    EXPECT_THAT(error_of([&] { plan_of(mapping, spec, wrong); }),
                HasSubstr("matrix 'm0': weights of 7 x 30; the mapping has 30 x 7"));
    auto other = spec;
    other.core.rows = 128;
    EXPECT_THAT(error_of([&] { plan_of(mapping, other, {}); }), HasSubstr("a mapping for chips of 64 cores"));
}

// Even cuts give the regions of chip/plan.hpp place().
TEST(Map, EvenCutsAreThoseOfPlace) {
    const auto chip = chip_preset("hermes");
    std::vector<Matrix<float>> weights;
    weights.emplace_back(300, 700);
    weights.emplace_back(10, 5);
    const auto plan = place(chip, weights);
    const auto result = map_matrices({{"a", 300, 700}, {"b", 10, 5}}, grid_of(chip), {.cuts = Cuts::even});
    EXPECT_EQ(result.mapping.regions, plan.regions);
    EXPECT_TRUE(result.optimal());
    verify_products(result.mapping);
    EXPECT_THAT(error_of([&] {
                    (void)map_matrices({{"a", 300, 700}}, grid_of(chip), {.cuts = Cuts::even, .replicas = 2});
                }),
                HasSubstr("even cuts"));
}

}  // namespace
}  // namespace imka

// Regression tests for common complaints about other deployment tools. Tested elsewhere: VGG16 in 2 GB of
// memory (LargeModels.Vgg16), files of public collections that fail to load (ModelZoo,
// OnnxConformance.OldExportsOfPyTorchPass, OnnxImport.ReadsOldExportsOfPublicCollections), energies without
// units (CostData.NeedsASourceAndAnInterval).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deploy/models.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/mapping_cost.hpp"
#include "imka/deploy/on_chip.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using graph::Dim;
using graph::Graph;
using graph::GraphBuilder;
using graph::random_tensor;
using testing::ElementsAre;
using testing::HasSubstr;

const Exec kComplaintExec{.threads = 2};

// Largest difference between the model on a chip without errors and in FP32, relative to the largest output.
double ideal_error(const Graph& graph) {
    const auto spec = chip_preset("ideal");
    const auto inputs = inputs_of(graph, 20, 3);
    const auto model = deploy(place_model(graph, spec, {}), spec, {}, inputs, 1, kComplaintExec);
    const auto driver = make_emulator(model.chip, Simulator::fast, kComplaintExec);
    const auto y = run_model(model, *driver, inputs, 1, kComplaintExec).outputs[0];
    const auto exact =
        run_batches({.graph = graph, .matrices = {}, .inputs = inputs}, nullptr, kComplaintExec)[0];
    double error = 0.0;
    double largest = 0.0;
    for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
        error = std::max(error, std::abs(double{y.values<float>()[i]} - exact.values<float>()[i]));
        largest = std::max(largest, std::abs(double{exact.values<float>()[i]}));
    }
    return error / largest;
}

Graph conv(const graph::Shape& maps, const graph::Shape& kernel, std::int64_t groups) {
    GraphBuilder b;
    graph::Dims dims{{Dim::kUnknown, "batch"}};
    for (const auto n : maps) dims.push_back({n});
    b.input("x", dims)
        .constant("k", random_tensor(kernel, 1))
        .node("Conv", {"x", "k"}, {"y"},
              {{"group", groups}, {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
    return b.build("y");
}

TEST(Complaints, MapsOf2x2WithPaddedKernelsOf3x3) {
    EXPECT_LT(ideal_error(conv({3, 2, 2}, {4, 3, 3, 3}, 1)), 0.05);
}

TEST(Complaints, DepthwiseAndGroupedConvolutions) {
    EXPECT_LT(ideal_error(conv({6, 5, 5}, {6, 1, 3, 3}, 6)), 0.05);
    EXPECT_LT(ideal_error(conv({6, 5, 5}, {4, 3, 3, 3}, 2)), 0.05);
}

TEST(Complaints, MatricesOfExactlyOneCore) {
    GraphBuilder b;
    b.input("x", {{Dim::kUnknown, "batch"}, {256}})
        .constant("w", random_tensor({256, 256}, 1))
        .node("MatMul", {"x", "w"}, {"y"});
    const auto graph = b.build("y");
    EXPECT_EQ(place_model(graph, chip_preset("hermes"), {}).result.cores, 1U);
    EXPECT_LT(ideal_error(graph), 0.05);
}

// q kᵀ: neither operand is constant, so it stays digital, with its operands in order.
TEST(Complaints, ProductsOfTwoActivations) {
    GraphBuilder b;
    b.input("x", {{Dim::kUnknown, "batch"}, {5}, {8}})
        .constant("wq", random_tensor({8, 6}, 1))
        .constant("wk", random_tensor({8, 6}, 2))
        .node("MatMul", {"x", "wq"}, {"q"})
        .node("MatMul", {"x", "wk"}, {"k"})
        .node("Transpose", {"k"}, {"kt"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}})
        .node("MatMul", {"q", "kt"}, {"scores"});
    const auto graph = b.build("scores");
    EXPECT_THAT(choose_matrices(graph, "all"), ElementsAre("wq", "wk"));
    EXPECT_LT(ideal_error(graph), 0.05);
    const auto inputs = inputs_of(graph, 1, 3);
    const auto scores =
        run_batches({.graph = graph, .matrices = {}, .inputs = inputs}, nullptr, kComplaintExec)[0];
    const auto x = inputs[0].values<float>();
    const auto projected = [&](std::size_t token, std::size_t feature, std::uint64_t seed) {
        const auto w = random_tensor({8, 6}, seed);
        double sum = 0.0;
        for (std::size_t i = 0; i < 8; ++i)
            sum += double{x[token * 8 + i]} * w.values<float>()[i * 6 + feature];
        return sum;
    };
    for (std::size_t q = 0; q < 5; ++q) {
        for (std::size_t k = 0; k < 5; ++k) {
            double score = 0.0;
            for (std::size_t f = 0; f < 6; ++f) score += projected(q, f, 1) * projected(k, f, 2);
            EXPECT_NEAR(scores.values<float>()[q * 5 + k], score, 1e-4) << q << " " << k;
        }
    }
}

TEST(Complaints, WhatDoesNotFitIsRefusedNotMappedWrongly) {
    GraphBuilder b;
    b.input("x", {{Dim::kUnknown, "batch"}, {300}})
        .constant("w", random_tensor({300, 300}, 1))
        .node("MatMul", {"x", "w"}, {"y"});
    auto spec = chip_preset("hermes");
    spec.cores = 2;
    DeployOptions options;
    options.map.chips = 1;
    EXPECT_THAT(error_of([&] { (void)place_model(b.build("y"), spec, options); }),
                HasSubstr("possible changes"));
}

// A tile on another chip: its outputs have to be transferred.
TEST(Complaints, MovingATileChangesWhatMoves) {
    const auto list = parse_shapes("512x64@10 64x64@10");
    auto grid = grid_of(chip_preset("hermes"));
    grid.cores = 4;
    auto result = map_matrices(list, grid, {.chips = 2});
    auto spec = chip_preset("hermes");
    spec.cores = 4;
    spec.chips = 2;
    const auto before = mapping_cost(result.mapping, spec, {}, cost_data());
    for (auto& region : result.mapping.regions) {
        if (region.matrix == 1) region.core = 5;
    }
    verify_products(result.mapping);
    const auto after = mapping_cost(result.mapping, spec, {}, cost_data());
    EXPECT_GT(after.host_bytes, before.host_bytes);
}

}  // namespace
}  // namespace imka

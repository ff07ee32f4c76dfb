// Costs by layer: which steps belong to a layer, and sums equal to the cost of the whole.
#include "imka/deploy/layer_cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "deploy/schedules.hpp"
#include "imka/deploy/map.hpp"

namespace imka {
namespace {

using testing::ElementsAre;

PipelineStep digital_step(std::vector<StepInput> inputs, double additions) {
    return {.name = "digital", .op = "Add", .inputs = std::move(inputs), .work = {.additions = additions}};
}

// input -> digital 0 -> product 1 (matrix 0) -> digital 2 -> product 3 (matrices 1 and 2) -> digital 4 of 2,
// 3
Pipeline small_pipeline() {
    Pipeline p;
    p.steps = {digital_step({}, 10.0), step_of(0, 4, {{0}}), digital_step({{1}}, 20.0), step_of(1, 4, {{2}}),
               digital_step({{2}, {3}}, 40.0)};
    p.steps[3].matrices = {1, 2};
    p.steps[1].work.multiplications = 8.0;
    p.chains = chains_of(p.steps);
    return p;
}

TEST(LayerCost, DigitalStepsBelongToTheLastProductBeforeThem) {
    EXPECT_THAT(step_layers(small_pipeline(), 3), ElementsAre(ElementsAre(3), ElementsAre(0), ElementsAre(0),
                                                              ElementsAre(1, 2), ElementsAre(1, 2)));
}

TEST(LayerCost, LayersOfAStepShareItsDigitalWork) {
    const auto data = cost_data();
    const auto layers =
        layer_costs(small_pipeline(), mapping_at({{{0}}, {{1}}, {{2}}}), chip_preset("hermes"), data);
    const double addition = 1e-12 * parameter(data.parameters, "addition").value;
    const double product = 1e-12 * parameter(data.parameters, "multiplication").value;
    ASSERT_EQ(layers.size(), 4U);
    EXPECT_DOUBLE_EQ(layers[0].digital_joules.value, 20.0 * addition + 8.0 * product);
    EXPECT_DOUBLE_EQ(layers[1].digital_joules.value, 20.0 * addition);
    EXPECT_DOUBLE_EQ(layers[2].digital_joules.value, 20.0 * addition);
    EXPECT_DOUBLE_EQ(layers[3].digital_joules.value, 10.0 * addition);
    EXPECT_EQ(layers[3].core_products, 0.0);
    EXPECT_EQ(layers[3].host_bytes, 0.0);
}

// Inputs, outputs, and results that a product on another chip reads.
TEST(LayerCost, BytesOfAModelFollowItsSteps) {
    Pipeline p{.steps = {step_of(0, 4), step_of(1, 4, {{0}}), step_of(2, 4, {{0}})}, .chains = {}};
    p.steps[0].input_bytes = 5.0;
    p.steps[0].output_bytes = 7.0;
    p.steps[1].output_bytes = 11.0;
    p.steps[2].output_bytes = 13.0;
    p.steps[2].is_output = true;
    const auto bytes = [&](std::uint32_t core) {
        auto mapping = mapping_at({{{0}}, {{1}}, {{core}}});
        mapping.grid.chips = 2;
        const auto layers = layer_costs(p, mapping, chip_preset("hermes"), cost_data());
        EXPECT_EQ(layers[1].host_bytes, 0.0);
        return model_cost(p, mapping, chip_preset("hermes"), cost_data()).host_bytes;
    };
    EXPECT_EQ(bytes(2), 5.0 + 13.0);
    EXPECT_EQ(bytes(64), 5.0 + 7.0 + 13.0) << "the third matrix is on the second chip";
}

void expect_sums(const Mapping& mapping, const Pipeline& pipeline) {
    const auto spec = chip_preset("hermes");
    const auto whole = model_cost(pipeline, mapping, spec, cost_data());
    const auto layers = layer_costs(pipeline, mapping, spec, cost_data());
    const std::function<double(const MappingCost&)> parts[] = {
        [](const MappingCost& c) { return c.core_products; },
        [](const MappingCost& c) { return c.operations; },
        [](const MappingCost& c) { return c.latency_seconds; },
        [](const MappingCost& c) { return c.core_joules.value(); },
        [](const MappingCost& c) { return c.partial_sums; },
        [](const MappingCost& c) { return c.chip_bytes; },
        [](const MappingCost& c) { return c.host_bytes; },
        [](const MappingCost& c) { return c.digital_seconds.high; },
        [](const MappingCost& c) { return c.digital_joules.low; },
        [](const MappingCost& c) { return c.digital_joules.value; },
        [](const MappingCost& c) { return c.link_seconds.value; },
        [](const MappingCost& c) { return c.link_joules.high; }};
    for (std::size_t k = 0; k < std::size(parts); ++k) {
        double sum = 0.0;
        for (const auto& layer : layers) sum += parts[k](layer);
        EXPECT_NEAR(sum, parts[k](whole), 1e-12 * parts[k](whole)) << k;
    }
}

TEST(LayerCost, LayersAddUpToTheWhole) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto problem = random_problem(seed, 3, true);
        if (problem.mapping.matrices.empty()) continue;
        expect_sums(problem.mapping, problem.pipeline);
    }
}

TEST(LayerCost, LayersOfSeveralChipsAddUpToTheWhole) {
    const auto list = known_network("resnet18-in").matrices;
    const auto result = map_matrices(list, grid_of(chip_preset("hermes")));
    EXPECT_EQ(result.mapping.grid.chips, 3U);
    expect_sums(result.mapping, pipeline_of(list));
}

}  // namespace
}  // namespace imka

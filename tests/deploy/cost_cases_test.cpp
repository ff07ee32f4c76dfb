// The ways to run matrices on a chip: read modes, copies, and what each costs.
#include "imka/deploy/cost_cases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/schedules.hpp"
#include "imka/deploy/layer_cost.hpp"

namespace imka {
namespace {

using testing::ElementsAre;

TEST(CostCases, ReadModesAreThoseWhosePowerIsKnown) {
    auto spec = chip_preset("hermes");
    EXPECT_THAT(read_modes(spec), ElementsAre(ReadMode::one_phase, ReadMode::four_phase));
    spec.core.cost.four_phase_watts = 0.0;
    EXPECT_THAT(read_modes(spec), ElementsAre(ReadMode::one_phase));
    spec.core.cost.one_phase_watts = 0.0;
    EXPECT_THAT(read_modes(spec), ElementsAre(ReadMode::one_phase, ReadMode::four_phase)) << "none is known";
    spec.core.cost.four_phase_watts = 1.0;
    EXPECT_THAT(read_modes(spec), ElementsAre(ReadMode::four_phase));
}

TEST(CostCases, AListHasOneCopyOrAsManyAsFit) {
    const auto spec = chip_preset("hermes");
    const auto cases = cost_cases(parse_shapes("512x1024@1024"), spec, cost_data(), {.chips = 1, .work = {}});
    ASSERT_EQ(cases.size(), 4U);
    EXPECT_EQ(cases[0].mode, ReadMode::one_phase);
    EXPECT_EQ(cases[1].mode, ReadMode::four_phase);
    EXPECT_EQ(cases[0].copies, 1U);
    EXPECT_EQ(cases[2].copies, 8U) << "of 8 cores each";
    EXPECT_LT(cases[0].cost.latency_seconds, cases[1].cost.latency_seconds);
    // The paper's 63.1 TOPS and 9.76 TOPS/W, rounded.
    EXPECT_NEAR(cases[2].cost.tops(), 63.1, 0.05);
    EXPECT_NEAR(cases[2].cost.tops_per_watt().value(), 9.76, 0.005);
    EXPECT_FALSE(MappingCost{}.tops_per_watt());
}

TEST(CostCases, AModelHasItsOwnDigitalWork) {
    const auto spec = chip_preset("hermes");
    const auto mapping = mapping_at({{{0}}, {{1}}});
    Pipeline pipeline{.steps = {step_of(0, 4), step_of(1, 4, {{0}})}, .chains = {}};
    pipeline.steps[0].work.additions = 20.0;
    const auto data = cost_data();
    const auto model = cost_cases(mapping, pipeline, spec, data);
    const auto plain = cost_cases(mapping, spec, data, {});
    ASSERT_EQ(model.size(), 2U);
    ASSERT_EQ(plain.size(), 2U);
    EXPECT_FALSE(model[0].copies);
    EXPECT_EQ(plain[0].cost.digital_joules.value, 0.0);
    EXPECT_EQ(model[0].cost.digital_joules.value,
              model_cost(pipeline, mapping, spec, data).digital_joules.value);
    EXPECT_GT(model[0].cost.digital_joules.value, 0.0);
}

}  // namespace
}  // namespace imka

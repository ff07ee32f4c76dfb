// A model on chips with other constants.
#include "imka/deploy/what_if.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/models.hpp"
#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

const Exec kWhatIfExec{.threads = 2};

std::vector<WhatIfPoint> chips_of(const std::vector<std::string>& axes) {
    const auto graph = small_network();
    const auto chip = chip_preset("hermes");
    const auto calibration = inputs_of(graph, 200, 1);
    const auto test = inputs_of(graph, 40, 2);
    std::vector<WhatIfAxis> parsed;
    for (const auto& text : axes) parsed.push_back(parse_axis(text));
    const std::vector<std::uint64_t> seeds{0, 1, 2};
    return what_if({.graph = graph,
                    .chip = chip,
                    .axes = parsed,
                    .calibration = calibration,
                    .test = test,
                    .seeds = seeds},
                   kWhatIfExec);
}

TEST(WhatIf, ParsesAxes) {
    const auto axis = parse_axis("core.rows=64,128");
    EXPECT_EQ(axis.key, "core.rows");
    EXPECT_EQ(axis.values, (std::vector<std::string>{"64", "128"}));
    EXPECT_THAT(error_of([] { (void)parse_axis("core.rows"); }), HasSubstr("expected KEY=VALUE"));
}

TEST(WhatIf, SmallCoresNeedMoreOfThem) {
    const auto points = chips_of({"core.cols=8,256", "core.rows=8"});
    ASSERT_EQ(points.size(), 2U);
    EXPECT_GT(points[0].cores, points[1].cores);
    EXPECT_LT(points[0].joules->low, points[0].joules->high) << "the power of small cores is not known";
}

TEST(WhatIf, FewInputLevelsCostAccuracyAndSaveTime) {
    const auto points = chips_of({"core.input_levels=7,127"});
    EXPECT_GT(points[0].error.mean, 1.5 * points[1].error.mean);
    EXPECT_LT(points[0].latency_seconds, points[1].latency_seconds);
    EXPECT_TRUE(points[0].best && points[1].best) << "each is better in something";
}

TEST(WhatIf, ANoisierChipIsNotOnTheFront) {
    const auto points = chips_of({"core.adc_noise=1.4,30"});
    EXPECT_TRUE(points[0].best);
    EXPECT_FALSE(points[1].best);
}

TEST(WhatIf, CombinesAxes) {
    const auto points = chips_of({"core.rows=128,256", "core.adc_noise=0,1.4,3"});
    ASSERT_EQ(points.size(), 6U);
    EXPECT_EQ(points[1].constants[0].second, "128");
    EXPECT_EQ(points[1].constants[1].second, "1.4");
}

TEST(WhatIf, NodesChangeEnergyAndAreaOnly) {
    const auto points = chips_of({"node=14,7"});
    EXPECT_LT(points[1].joules->value, points[0].joules->value);
    EXPECT_LT(points[1].area_mm2->value, points[0].area_mm2->value);
    EXPECT_GT(points[1].joules->high - points[1].joules->low, points[0].joules->high - points[0].joules->low);
    EXPECT_EQ(points[1].latency_seconds, points[0].latency_seconds) << "pulses are as long";
    EXPECT_EQ(points[1].error.mean, points[0].error.mean);
}

// One small core per chip: three matrices need several chips, unless crossbars are stacked.
TEST(WhatIf, TiersSaveChipsButShareConverters) {
    const auto points = chips_of({"core.rows=8", "core.cols=8", "chip.cores=1", "tiers=1,8"});
    EXPECT_EQ(points[1].cores, points[0].cores) << "as many crossbars";
    EXPECT_LT(points[1].chips, points[0].chips);
    EXPECT_LT(points[1].area_mm2->value, points[0].area_mm2->value);
    EXPECT_GT(points[1].latency_seconds, points[0].latency_seconds) << "tiers multiply one after another";
    EXPECT_THAT(assumptions_of(std::vector{parse_axis("tiers=1,4")}), testing::Not(testing::IsEmpty()));
    EXPECT_THAT(assumptions_of(std::vector{parse_axis("core.adc_noise=1,4")}), testing::IsEmpty());
}

TEST(WhatIf, RefusesUnknownConstants) {
    EXPECT_THAT(error_of([] { (void)chips_of({"tiers=0"}); }), HasSubstr("tiers"));
    EXPECT_THAT(error_of([] { (void)chips_of({"chip.cores=65536", "tiers=2"}); }), HasSubstr("cores"));
    EXPECT_THAT(error_of([] { (void)chips_of({"core.row=64"}); }), HasSubstr("core.row"));
    EXPECT_THAT(error_of([] { (void)chips_of({"core.rows=-1"}); }), HasSubstr("core.rows"));
}

}  // namespace
}  // namespace imka

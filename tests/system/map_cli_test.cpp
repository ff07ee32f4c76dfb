// imka map and imka cost as a user calls them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/command.hpp"

namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(MapCli, PrintsCoresBoundAndUtilisation) {
    const auto r = run_imka(
        "map --shapes '640x128 128x128 128x128 128x128 128x8 8x128 128x128 128x128 128x128 128x640' --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto j = json::parse(r.out);
    EXPECT_EQ(j["cores"], 5);
    EXPECT_EQ(j["lower_bound"], 5);
    EXPECT_EQ(j["optimal"], true);
    EXPECT_EQ(j["chips"], 1);
    EXPECT_GT(j["utilisation"], 0.8);
    EXPECT_EQ(j["core_list"].size(), 5U);
}

TEST(MapCli, WritesVerifiesAndComparesFiles) {
    const TempDir dir;
    const auto a = (dir / "a.json").string();
    const auto b = (dir / "b.json").string();
    const auto svg = (dir / "a.svg").string();
    EXPECT_EQ(run_imka("map --network performer-aan --output " + a + " --svg " + svg).exit_code, 0);
    EXPECT_EQ(run_imka("map --network performer-aan --cuts free --output " + b).exit_code, 0);
    EXPECT_THAT(imka::read_file(svg, 1U << 20U), HasSubstr("performer-aan on hermes"));
    EXPECT_THAT(run_imka("map --verify " + a).out, HasSubstr("16 matrices on 3 cores"));
    EXPECT_EQ(run_imka("map --diff " + a + " " + a).exit_code, 0);
    const auto diff = run_imka("map --diff " + a + " " + b);
    EXPECT_EQ(diff.exit_code, 1);
    EXPECT_THAT(diff.out, HasSubstr("cores: 3 -> 2"));
    const auto cost = run_imka("cost " + a + " --json");
    ASSERT_EQ(cost.exit_code, 0) << cost.err;
    EXPECT_EQ(json::parse(cost.out)["cases"][0]["cores"], 3);
}

// One vector per inference: the copies take turns.
TEST(MapCli, SchedulesTheThroughputThatWasAskedFor) {
    for (const auto* inferences : {"1", "2", "60"}) {
        const auto r =
            run_imka(std::string("map --shapes 64x64 --throughput 1e7 --json --inferences ") + inferences);
        ASSERT_EQ(r.exit_code, 0) << r.err;
        const auto j = json::parse(r.out);
        EXPECT_GT(j["cores"], 1);
        EXPECT_LE(j["interval_seconds"], 1e-7);
        EXPECT_LE(j["schedule"]["interval_seconds"], 1e-7) << inferences;
        EXPECT_GT(j["schedule"]["interval_seconds"], 5e-8) << inferences;
    }
}

TEST(MapCli, RefusesWhatDoesNotFitOrHasNoEffect) {
    expect_fails("map --network resnet18-in --chips 1", 2, "115 missing; possible changes: 3 chips");
    expect_fails("map", 2, "give one of --network");
    expect_fails("map --network ad --shapes 4x4", 2, "give one of --network");
    expect_fails("map --network nothing", 2, "nothing");
    expect_fails("map --shapes 4x4 --replicas 0", 2, "--replicas 0; expected 1 or more");
    expect_fails("map --shapes 4x4 --output /nowhere/a.json", 3, "/nowhere");
    expect_fails("map --list --cuts free", 2, "--cuts has no effect");
    expect_fails("map --verify /nowhere/a.json", 3, "/nowhere/a.json");
    expect_fails("cost paper --network ad", 2, "--network has no effect");
}

TEST(CostCli, PrintsThePaper) {
    const auto r = run_imka("cost paper --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto j = json::parse(r.out);
    int table = 0;
    for (const auto& v : j["values"])
        table += v["where"] == "supplementary table" && v["agrees"] == true ? 1 : 0;
    EXPECT_EQ(table, 16);
    EXPECT_LT(j["neurram_median_tops_error"], 0.1);
    EXPECT_LT(j["neurram_median_tops_per_watt_error"], 0.1);
}

}  // namespace

// Sweeps of reproductions: changes by the user, inputs from a trained model, runs of other folders.
#include "imka/experiment/reproduce.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "imka/experiment/record.hpp"
#include "imka/train/performer.hpp"
#include "support/error.hpp"
#include "support/small_performer.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Reproduce, PlansTheExperimentWithItsChanges) {
    const auto plan = plan_reproduction(
        "smoke", "", {.seeds = "7", .datasets = {"twonorm", "nowhere"}, .changes = {{"kernel", "rbf"}}}, {});
    ASSERT_EQ(plan.runs.size(), 3U * 2U) << "samplers and sizes";
    for (const auto& run : plan.runs) {
        EXPECT_EQ(run.seed, 7U);
        EXPECT_EQ(run_config(plan, run).dataset, "twonorm");
    }
}

TEST(Reproduce, QueriesKeysAndValuesAreComputedOnce) {
    const TempDir dir;
    save_performer(dir / "a.safetensors", untrained_tiny());
    const ReproduceConfig config{
        .output = dir / "r",
        .models = dir.path().string(),
        .seeds = "0..2",
        .changes = {{"n_directions", "[7, 15]"}, {"backend", "fp32"}, {"sequences", "4"}}};
    const auto plan = plan_reproduction("attention_error_trained", "a.safetensors", config, {});
    ASSERT_EQ(plan.runs.size(), 2U * 3U);
    const auto file = run_config(plan, plan.runs.front()).dataset;
    EXPECT_THAT(file, HasSubstr("r/attention_error_trained/a-"));
    const auto written = std::filesystem::last_write_time(file);
    plan_reproduction("attention_error_trained", "a.safetensors", config, {});
    EXPECT_EQ(std::filesystem::last_write_time(file), written);
}

TEST(Reproduce, AMissingModelLeavesAPlanWithoutRuns) {
    const TempDir dir;
    const ReproduceConfig config{.output = dir / "r", .models = dir.path().string()};
    const auto plan = plan_reproduction("attention_error_trained", "imdb-hwa.safetensors", config, {});
    EXPECT_TRUE(plan.runs.empty());
    EXPECT_THAT(plan.missing, ElementsAre(HasSubstr("to train it: imka train --task imdb_hwa")));
    EXPECT_THAT(error_of([&] {
                    plan_reproduction("smoke", "", {.changes = {{"no_setting", "1"}}}, {});
                }),
                HasSubstr("no_setting"))
        << "other errors stay errors";
}

TEST(Reproduce, FinishedRunsOfOtherFoldersAreAdopted) {
    const auto small = [](const std::string& name, const std::string& seeds) {
        return parse_experiment(
            "name: " + name + "\nbase: {gram_rows: 100, log_ratio: 0}\ngrid: {seeds: " + seeds + "}\n",
            name + ".yaml");
    };
    const TempDir dir;
    run_sweep(plan_sweep(small("one", "0..1"), {}, {}), {.output = dir / "one"}, {});
    const auto plan = plan_sweep(small("two", "1..2"), {}, {});
    for (int i = 0; i < 2; ++i) adopt_runs(plan, {dir / "none", dir / "one", dir / "two"}, dir / "two");
    const auto records = read_records(dir / "two").records;
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].seed, 1U);
    EXPECT_EQ(records[0].experiment, "two");
    EXPECT_EQ(run_sweep(plan, {.output = dir / "two"}, {}).status.before, 1U);
}

}  // namespace
}  // namespace imka

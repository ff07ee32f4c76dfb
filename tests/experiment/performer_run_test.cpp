// Runs of Performers: results against a direct evaluation, keys, sweeps that resume, missing and damaged
// models.
#include "imka/experiment/performer_run.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/parallel.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/experiment/record.hpp"
#include "imka/experiment/spec.hpp"
#include "imka/experiment/sweep.hpp"
#include "support/error.hpp"
#include "support/small_performer.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// An untrained model whose classes differ.
Performer tiny_model(std::uint64_t seed = 5) {
    auto model = untrained_tiny(seed);
    for (auto& x : model.weights.at("classifier.output.weight").values()) x *= 8.0F;
    for (auto& x : model.weights.at("classifier.hidden.weight").values()) x *= 4.0F;
    return model;
}

Experiment experiment(const TempDir& dir, const std::string& more = "") {
    return parse_experiment(
        fmt::format("name: tiny_table\nkind: performer\n"
                    "base: {{dataset: tiny, samples: 40, calibration_examples: 20, "
                    "models: {}}}\n"
                    "grid: {{mode: [fp32, attention, all, all-but-last], seeds: 0..1}}\n{}",
                    dir.path().string(), more),
        "tiny.yaml");
}

std::vector<Record> swept(const Experiment& e, const std::filesystem::path& output) {
    const auto plan = plan_sweep(e, {}, {});
    run_sweep(plan, {.output = output}, {});
    return read_records(output).records;
}

TEST(PerformerRuns, AreThoseOfOneEvaluation) {
    const TempDir dir;
    const auto model = tiny_model();
    save_performer(dir / "tiny-vanilla.safetensors", model);
    const auto records = swept(experiment(dir), dir / "runs");
    ASSERT_EQ(records.size(), 8U);
    const auto test = load_lra(LraTask::tiny, LraPart::test, {.examples = 40}, {});
    const auto train = load_lra(LraTask::tiny, LraPart::train, {.examples = 40}, {});
    const auto expected =
        evaluate(model, {test, train},
                 {.modes = {EvalMode::fp32, EvalMode::attention, EvalMode::all, EvalMode::all_but_last},
                  .seeds = {0, 1},
                  .chip = chip_preset("hermes")},
                 {});
    for (const auto& mode : expected.modes) {
        for (std::size_t s = 0; s < 2; ++s) {
            const auto r = std::ranges::find_if(records, [&](const Record& one) {
                return one.setting("mode") == to_string(mode.mode) && one.seed == s;
            });
            ASSERT_NE(r, records.end());
            EXPECT_EQ(r->results.at("loss"), mode.seeds[s].loss) << to_string(mode.mode) << " " << s;
            EXPECT_EQ(r->results.at("accuracy"), accuracy(expected.labels, mode.seeds[s].predicted));
            EXPECT_EQ(r->results.at("examples"), 40.0);
            EXPECT_EQ(r->results.at("m"), 16.0);
            EXPECT_EQ(r->setting("origin"), "generated with seed 0");
            EXPECT_EQ(r->setting("models"), "") << "a record does not depend on the folder";
            EXPECT_EQ(r->setting("chip_hash").empty(), mode.mode == EvalMode::fp32);
        }
    }
}

TEST(PerformerRuns, OfOneTestShareItsResults) {
    const PerformerData none{};
    RunData data(none);
    std::atomic<int> tests = 0;
    const auto test = [&] {
        ++tests;
        return std::map<std::string, RunData::Results>{{"all", {{"loss", 1.0}}},
                                                       {"all-but-last", {{"loss", 2.0}}}};
    };
    std::vector<double> losses(2);
    parallel_for({.threads = 2}, 2, [&](std::size_t i) {
        losses[i] = data.take_results("seed 0", i == 0 ? "all" : "all-but-last", test).at("loss");
    });
    EXPECT_THAT(losses, testing::ElementsAre(1.0, 2.0));
    EXPECT_EQ(tests, 1);
    // Results can be taken only once; another group has its own; after an error the next run computes them.
    data.take_results("seed 0", "all", test);
    EXPECT_EQ(tests, 2);
    const auto failing = []() -> std::map<std::string, RunData::Results> {
        fail(ErrorCode::numeric, "no result");
    };
    EXPECT_THAT(error_of([&] { data.take_results("seed 1", "all", failing); }), HasSubstr("no result"));
    EXPECT_EQ(data.take_results("seed 1", "all", test).at("loss"), 1.0);
    EXPECT_EQ(tests, 3);
}

TEST(PerformerRuns, ResumeAndKnowTheModelByItsContent) {
    const TempDir dir;
    save_performer(dir / "tiny-vanilla.safetensors", tiny_model());
    const auto e = experiment(dir);
    const auto plan = plan_sweep(e, {}, {});
    EXPECT_EQ(run_sweep(plan, {.output = dir / "runs"}, {}).recorded, 8U);
    EXPECT_EQ(run_sweep(plan, {.output = dir / "runs"}, {}).recorded, 0U);
    // In another folder the runs are the same ones.
    const TempDir other;
    std::filesystem::copy_file(dir / "tiny-vanilla.safetensors", other / "tiny-vanilla.safetensors");
    EXPECT_EQ(plan_sweep(experiment(other), {}, {}).runs[0].key, plan.runs[0].key);
    // Another model with the same name is another run.
    save_performer(dir / "tiny-vanilla.safetensors", tiny_model(6));
    const auto changed = plan_sweep(e, {}, {});
    EXPECT_EQ(run_sweep(changed, {.output = dir / "runs"}, {}).recorded, 8U);
}

TEST(PerformerRuns, ListWhatIsMissing) {
    const TempDir dir;
    save_performer(dir / "tiny-vanilla.safetensors", tiny_model());
    const auto plan =
        plan_sweep(experiment(dir,
                              "cases:\n  - {checkpoint: TASK-vanilla.safetensors}\n"
                              "  - {checkpoint: TASK-hwa.safetensors}\n"
                              "  - {checkpoint: tiny-vanilla.safetensors, dataset: tiny, samples: 30}\n"),
                   {}, {});
    EXPECT_EQ(plan.runs.size(), 16U);
    EXPECT_THAT(plan.missing,
                testing::ElementsAre(testing::AllOf(
                    testing::StartsWith((dir / "tiny-hwa.safetensors").string() + ": no such model"),
                    testing::HasSubstr("imka train --task tiny_hwa --from " +
                                       (dir / "tiny-vanilla.safetensors").string()))));
    // Missing data.
    auto imdb = tiny_model();
    imdb.task = "imdb";
    save_performer(dir / "imdb-vanilla.safetensors", imdb);
    auto e = experiment(dir);
    override_setting(e, "dataset", "imdb");
    const auto without = plan_sweep(e, dir / "no_data", {});
    EXPECT_TRUE(without.runs.empty());
    ASSERT_EQ(without.missing.size(), 1U);
    EXPECT_THAT(without.missing[0], HasSubstr("imdb"));
}

TEST(PerformerRuns, RefuseDamagedAndOtherModels) {
    const TempDir dir;
    const auto path = dir / "tiny-vanilla.safetensors";
    save_performer(path, tiny_model());
    auto bytes = read_file(path, 1U << 20U);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_THAT(error_of([&] { plan_sweep(experiment(dir), {}, {}); }),
                AllOf(HasSubstr("bad_data"), HasSubstr("tiny-vanilla.safetensors"), HasSubstr("mode=fp32")));
    std::ofstream(path, std::ios::binary) << bytes.substr(0, 100);
    EXPECT_THAT(error_of([&] { plan_sweep(experiment(dir), {}, {}); }),
                HasSubstr("tiny-vanilla.safetensors"));
    auto other = tiny_model();
    other.task = "listops";
    save_performer(path, other);
    EXPECT_THAT(error_of([&] { plan_sweep(experiment(dir), {}, {}); }),
                HasSubstr("a model for the task 'listops', not 'tiny'"));
}

TEST(PerformerRuns, CheckTheirSettings) {
    const TempDir dir;
    auto e = experiment(dir);
    override_setting(e, "backend", "fp32");
    EXPECT_THAT(error_of([&] { expand(e); }), HasSubstr("backend: mode attention needs a chip"));
    e = experiment(dir);
    override_setting(e, "dataset", "mnist");
    EXPECT_THAT(error_of([&] { expand(e); }), HasSubstr("mnist"));
    EXPECT_THAT(error_of([&] { override_setting(e, "mode", "half"); }), HasSubstr("all-but-last"));
    EXPECT_THAT(error_of([&] { override_setting(e, "samples", "0"); }), HasSubstr("samples"));
}

}  // namespace
}  // namespace imka

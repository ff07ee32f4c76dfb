// Tables of accuracies by task: measured next to published values, paired differences, missing runs.
#include "imka/report/task_tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "imka/experiment/run.hpp"
#include "imka/report/report.hpp"
#include "support/error.hpp"

namespace imka::report {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct RunSpec {
    std::string task = "cifar10";
    std::string checkpoint = "TASK-vanilla.safetensors";
    EvalMode mode = EvalMode::fp32;
    std::uint64_t seed = 0;
    double accuracy = 0.45;
};

Record record(const RunSpec& s) {
    auto config = performer_defaults();
    config.dataset = s.task;
    config.seeds = {s.seed};
    config.performer->source.checkpoint = s.checkpoint;
    config.performer->mode = s.mode;
    config.performer->origin = "files of " + s.task;
    Record r{.experiment = "table1",
             .kind = "performer",
             .seed = s.seed,
             .config = settings_text(config),
             .data_sha256 = "d",
             .results = {{"accuracy", s.accuracy}, {"loss", 1.5}, {"examples", 10000.0}}};
    r.key = run_key(r.kind, r.config, r.data_sha256);
    return r;
}

// Three seeds; the chip loses 0.01, 0.02, 0.03.
std::vector<Record> vanilla_runs() {
    std::vector<Record> records;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        const double digital = 0.44 + 0.01 * static_cast<double>(seed);
        records.push_back(record({.seed = seed, .accuracy = digital}));
        records.push_back(record({.mode = EvalMode::attention,
                                  .seed = seed,
                                  .accuracy = digital - 0.01 * static_cast<double>(seed + 1)}));
    }
    return records;
}

const TaskRow& row(const TaskTable& table, std::string_view model) {
    return *std::ranges::find(table.rows, model, &TaskRow::model);
}

// A digital run calibrates nothing, so it remains the reference for chips that were calibrated with different
// examples.
TEST(TaskTables, CalibrationOfChipsDoesNotSeparateDigitalRuns) {
    auto records = vanilla_runs();
    for (auto& r : records) r.config["calibration_examples"] = "8";
    const auto table = task_tables(records).at(0);
    EXPECT_EQ(row(table, "Performer, vanilla training").cells.back().accuracy.n, 3U);
    const auto& chip =
        row(table, "Performer, vanilla training, attention on chip, calibration_examples 8").cells.back();
    ASSERT_TRUE(chip.minus_digital);
    EXPECT_NEAR(chip.minus_digital->mean, -0.02, 1e-12);
}

TEST(TaskTables, PublishedAveragesAreThoseOfTheTasks) {
    for (const auto& table : published_tables()) {
        for (const auto& r : table.rows) {
            double sum = 0.0;
            for (const auto& a : r.accuracy) sum += a.value_or(NAN);
            if (!r.average) continue;
            EXPECT_EQ(table.tasks.size(), 5U);
            EXPECT_NEAR(sum / 5.0, *r.average, 0.00011) << table.name << " " << r.model;
        }
    }
    EXPECT_EQ(published_tables().at(0).rows.size(), 10U);
    EXPECT_EQ(published_tables().at(1).baseline, "Performer [1]");
}

TEST(TaskTables, ShowMeansBesidePublishedValues) {
    const auto tables = task_tables(vanilla_runs());
    ASSERT_EQ(tables.size(), 2U);
    const auto& table = tables[0];
    EXPECT_EQ(table.name, "table1");
    EXPECT_THAT(table.notes, ElementsAre("cifar10: 10000 test examples, files of cifar10"));
    const auto& digital = row(table, "Performer, vanilla training").cells.back();
    EXPECT_NEAR(digital.accuracy.mean, 0.45, 1e-12);
    EXPECT_NEAR(digital.accuracy.std, 0.01, 1e-12);
    EXPECT_NEAR(digital.example_error(), std::sqrt(0.45 * 0.55 / 10000.0), 1e-12);
    EXPECT_EQ(digital.published, 0.4595);
    EXPECT_EQ(digital.published_deviation, 0.0072);
    EXPECT_FALSE(digital.minus_digital || digital.published_minus_digital);
    const auto& chip = row(table, "Performer, vanilla training, attention on chip").cells.back();
    ASSERT_TRUE(chip.minus_digital);
    EXPECT_NEAR(chip.minus_digital->mean, -0.02, 1e-12);
    EXPECT_NEAR(chip.minus_digital->error(), 0.01 / std::sqrt(3.0), 1e-12);
    EXPECT_NEAR(*chip.published_minus_digital, 0.4589 - 0.4595, 1e-12);
    // The average covers only the tasks with runs.
    const auto& average = row(table, "Performer, vanilla training").average;
    ASSERT_TRUE(average);
    EXPECT_THAT(average->tasks, ElementsAre("cifar10"));
    EXPECT_NEAR(average->mean, 0.45, 1e-12);
    EXPECT_NEAR(average->published, 0.4595, 1e-12);
    EXPECT_EQ(row(table, "Skyformer [1]").published_average, 0.5939);
    // The whole test set, minus the baseline on the same task.
    EXPECT_EQ(tables[1].name, "full_test");
    EXPECT_NEAR(*row(tables[1], "Performer, vanilla training").average->minus_baseline, 0.45 - 0.4143, 1e-12);
}

TEST(TaskTables, SayWhatIsMissing) {
    const auto table = task_tables(vanilla_runs()).at(0);
    ASSERT_EQ(table.missing.size(), 5U);
    EXPECT_EQ(table.missing[0],
              "Performer, vanilla training: no runs of imdb, listops, retrieval, pathfinder32");
    EXPECT_EQ(table.missing[3],
              "Performer, hardware-aware training, all on chip: no runs of imdb, listops, "
              "retrieval, pathfinder32, cifar10");
    EXPECT_TRUE(task_tables({}).empty());
}

TEST(TaskTables, KeepOtherSettingsApart) {
    auto records = vanilla_runs();
    auto later = record({.mode = EvalMode::attention, .accuracy = 0.3});
    later.config["read_seconds"] = "86400";
    auto own = record({.checkpoint = "mine.safetensors", .accuracy = 0.5});
    auto some = record({.accuracy = 0.6});
    some.config["samples"] = "200";
    some.results["examples"] = 200.0;
    auto failed = record({.seed = 9});
    failed.error = "out of memory";
    for (const auto& r : {later, own, some, failed}) records.push_back(r);
    const auto tables = task_tables(records);
    ASSERT_EQ(tables.size(), 3U) << "some of the test set has no table of the whole test set";
    EXPECT_EQ(tables[0].title, "Accuracy on Long Range Arena, 200 test examples per task");
    EXPECT_EQ(row(tables[0], "Performer, vanilla training").cells.back().accuracy.n, 1U);
    const auto& table = tables[1];
    EXPECT_EQ(row(table, "Performer, vanilla training").cells.back().accuracy.n, 3U);
    const auto& chip = row(table, "Performer, vanilla training, attention on chip, after 1 d");
    EXPECT_NEAR(chip.cells.back().minus_digital->mean, 0.3 - 0.44, 1e-12);
    EXPECT_EQ(row(table, "mine.safetensors, fp32").cells.back().accuracy.mean, 0.5);
}

std::vector<Record> with_experiment(std::vector<Record> records, const std::string& name) {
    for (auto& r : records) r.experiment = name;
    return records;
}

TEST(TaskTables, BelongToTheirExperiments) {
    const auto names = [](const std::string& experiment) {
        std::vector<std::string> all;
        for (const auto& t : task_tables(with_experiment(vanilla_runs(), experiment))) all.push_back(t.name);
        return all;
    };
    EXPECT_THAT(names("full_test"), ElementsAre("full_test"));
    EXPECT_THAT(names("shared_omega"), ElementsAre("shared_omega"));
    EXPECT_THAT(names("mine"), ElementsAre("table1", "full_test"));
    const auto table = task_tables(with_experiment(vanilla_runs(), "shared_omega")).at(0);
    EXPECT_EQ(row(table, "Directions per layer").cells.at(0).accuracy.n, 3U);
    EXPECT_FALSE(row(table, "Directions per layer").cells.at(0).published);
    EXPECT_THAT(table.missing, ElementsAre("Shared directions: no runs of cifar10",
                                           "Shared directions, attention on chip: no runs of cifar10"));
    EXPECT_EQ(table.source, "");
}

TEST(TaskTables, PairRunsWithTheSameDirections) {
    auto records = vanilla_runs();
    for (auto r : vanilla_runs()) {
        r.config["saved_omega"] = "true";
        r.results["accuracy"] += r.setting("mode") == "fp32" ? 0.1 : 0.2;
        records.push_back(r);
    }
    auto other = record({.accuracy = 0.2});
    other.config["omega_law"] = "poisson";
    records.push_back(other);
    const auto table = task_tables(with_experiment(records, "saved_omega")).at(0);
    std::vector<std::string> models;
    for (const auto& r : table.rows) models.push_back(r.model);
    EXPECT_THAT(models,
                ElementsAre("Vanilla training", "Vanilla training, Ω of the Poisson law",
                            "Vanilla training, Ω of the checkpoint", "Vanilla training, attention on chip",
                            "Vanilla training, attention on chip, Ω of the checkpoint",
                            "Hardware-aware training", "Hardware-aware training, all on chip"));
    EXPECT_NEAR(row(table, models[3]).cells.back().minus_digital->mean, -0.02, 1e-12);
    EXPECT_NEAR(row(table, models[4]).cells.back().minus_digital->mean, 0.08, 1e-12);
    EXPECT_NEAR(row(table, models[1]).cells.back().accuracy.mean, 0.2, 1e-12);
}

TEST(TaskTables, OrderTimesAndDrawThem) {
    std::vector<Record> records;
    for (const auto* seconds : {"0", "3600", "86400", "2592000"}) {
        for (const auto* compensation : {"none", "global"}) {
            auto r = record({.checkpoint = "TASK-hwa.safetensors", .mode = EvalMode::all, .accuracy = 0.4});
            if (seconds == std::string("0") && compensation == std::string("global")) continue;
            r.config["read_seconds"] = seconds;
            r.config["compensation"] = compensation;
            records.push_back(r);
        }
    }
    records.push_back(record({.checkpoint = "TASK-hwa.safetensors", .accuracy = 0.5}));
    const auto report = make_report({.records = with_experiment(records, "performer_drift")}, "");
    const auto& section = report.sections.at(0);
    std::vector<std::string> models;
    for (const auto& r : section.tables.at(0).rows) models.push_back(r.model);
    EXPECT_THAT(models, ElementsAre("Digital", "All on chip", "All on chip, after 1 h",
                                    "All on chip, after 1 h, compensation global", "All on chip, after 1 d",
                                    "All on chip, after 1 d, compensation global", "All on chip, after 30 d",
                                    "All on chip, after 30 d, compensation global"));
    const auto& plot = section.plots.at(0).plots.at(0);
    ASSERT_EQ(plot.series.size(), 3U);
    for (const auto& s : plot.series) EXPECT_EQ(s.points.size(), 4U) << s.label;
    EXPECT_EQ(plot.ticks.front().name, "at once");
    EXPECT_EQ(plot.ticks.back().name, "30 d");
    EXPECT_NEAR(plot.series[2].points.back().y, 50.0, 1e-9) << plot.series[2].label;
    EXPECT_EQ(all_plots(report).size(), 1U);
    // Runs at a single time have no such plot.
    EXPECT_TRUE(make_report({.records = vanilla_runs()}, "").sections.at(0).plots.empty());
}

TEST(TaskTables, AreInTheReport) {
    const auto report = make_report({.records = vanilla_runs()}, "");
    ASSERT_EQ(report.sections.size(), 1U);
    EXPECT_TRUE(report.sections[0].figures.empty());
    EXPECT_TRUE(losses_of(report.set.records).empty());
    const auto document = json::parse(report_json(report));
    const auto& table = document.at("experiments").at(0).at("tables").at(0);
    const auto& r = table.at("rows").at(6);
    EXPECT_EQ(r.at("model"), "Performer, vanilla training, attention on chip");
    const auto& cell = r.at("cells").at(4);
    EXPECT_NEAR(cell.at("imka").at("mean"), 0.43, 1e-12);
    EXPECT_EQ(cell.at("imka").at("n"), 3);
    EXPECT_NEAR(cell.at("minus_digital").at("mean"), -0.02, 1e-12);
    EXPECT_NEAR(cell.at("published").at("mean"), 0.4589, 1e-12);
    EXPECT_FALSE(r.at("cells").at(0).contains("imka"));
    EXPECT_THAT(run_command("performer", vanilla_runs()[1].config, {0, 1}),
                testing::AllOf(HasSubstr("imka eval --checkpoint models/cifar10-vanilla.safetensors"),
                               HasSubstr("--mode attention --seeds 0..1")));
}

// The hash of the data includes the checkpoint.
TEST(TaskTables, DoNotMixModels) {
    auto records = vanilla_runs();
    auto other = record({.checkpoint = "TASK-hwa.safetensors"});
    other.data_sha256 = "e";
    records.push_back(other);
    const auto mixed = [](const std::vector<Record>& all) {
        return std::ranges::count(find_flags({.records = all}), "mixed", &Flag::name);
    };
    EXPECT_EQ(mixed(records), 0);
    records.front().data_sha256 = "f";
    EXPECT_EQ(mixed(records), 1);
}

TEST(TaskTables, RefuseBadFiles) {
    const std::string head =
        "tables:\n  - name: a\n    title: b\n    experiments: [e]\n    tasks: [x, y]\n    rows:\n";
    const auto error = [&](const std::string& row) {
        return error_of([&] { (void)parse_tables(head + row); });
    };
    EXPECT_THAT(error("      - {model: m, accuracy: [1]}\n"), HasSubstr("expected 2 values"));
    EXPECT_THAT(error("      - {model: m, accuracy: [1, z]}\n"), HasSubstr("'z' is not a number"));
    EXPECT_THAT(error("      - {model: m, mode: all, accuracy: [1, 2]}\n"),
                HasSubstr("both checkpoint and mode"));
    EXPECT_THAT(error("      - {model: m, acuracy: [1, 2]}\n"), HasSubstr("accuracy"));
}

}  // namespace
}  // namespace imka::report

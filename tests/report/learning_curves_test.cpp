// Learning curves: logs of folders, thinned curves, tests, ticks.
#include "imka/report/learning_curves.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/report/report.hpp"
#include "support/command.hpp"
#include "support/error.hpp"

namespace imka::report {
namespace {

using testing::HasSubstr;

std::string log_text(std::int64_t steps, bool tests) {
    std::string text;
    for (std::int64_t step = 50; step <= steps; step += 50) {
        text += event_json({.kind = "train", .step = step, .loss = 2.0, .accuracy = 0.25}) + "\n";
        if (step % 500 != 0) continue;
        text += event_json({.kind = "valid", .step = step, .loss = 1.5, .accuracy = 0.5}) + "\n";
        if (!tests) continue;
        text += event_json({.kind = "test", .step = step, .loss = 1.7, .accuracy = 0.4}) + "\n";
        text += event_json({.kind = "test_poisson", .step = step, .loss = 3.0, .accuracy = 0.1}) + "\n";
    }
    return text;
}

TEST(LearningCurves, ReadFilesAndRunFolders) {
    const TempDir dir;
    write_text(dir / "b.jsonl", log_text(500, false));
    std::filesystem::create_directories(dir / "a");
    write_text(dir / "a" / "log.jsonl", log_text(1000, false));
    write_text(dir / "notes.txt", "not a log");
    const auto logs = read_training_logs(dir.path());
    ASSERT_EQ(logs.size(), 2U);
    EXPECT_EQ(logs[0].name, "a");
    EXPECT_EQ(logs[1].name, "b");
    EXPECT_EQ(logs[0].events.size(), 22U);
    // The folder of one training.
    EXPECT_EQ(read_training_logs(dir / "a").at(0).name, "a");
    const TempDir empty;
    EXPECT_THAT(error_of([&] { read_training_logs(empty.path()); }), HasSubstr("no training logs"));
}

TEST(LearningCurves, HaveTwoPlotsPerTraining) {
    const TempDir dir;
    write_text(dir / "x.jsonl", log_text(22'000, true));
    const auto plots = learning_curves(read_training_logs(dir.path()));
    ASSERT_EQ(plots.size(), 2U);
    const auto& accuracy = plots[1];
    EXPECT_EQ(accuracy.id, "training-x-accuracy");
    ASSERT_EQ(accuracy.series.size(), 4U);
    EXPECT_EQ(accuracy.series[0].label, "training");
    EXPECT_LE(accuracy.series[0].points.size(), 200U) << "of 440";
    EXPECT_NEAR(accuracy.series[0].points.front().x, 100.0, 1e-9) << "the mean of steps 50, 100 and 150";
    EXPECT_NEAR(accuracy.series[0].points.front().y, 25.0, 1e-9);
    EXPECT_EQ(accuracy.series[1].points.size(), 44U);
    EXPECT_EQ(accuracy.series[3].label, "test, Poisson directions");
    EXPECT_NEAR(accuracy.series[3].points.back().y, 10.0, 1e-9);
    EXPECT_NEAR(plots[0].series[2].points.back().y, 1.7, 1e-12);
    std::vector<double> ticks;
    for (const auto& t : accuracy.ticks) ticks.push_back(t.at);
    EXPECT_THAT(ticks, testing::ElementsAre(0, 5000, 10'000, 15'000, 20'000));
}

TEST(LearningCurves, AreASectionOfTheReport) {
    const TempDir dir;
    write_text(dir / "x.jsonl", log_text(500, false));
    auto report = make_report({}, "");
    add_learning_curves(report, "training", read_training_logs(dir.path()));
    EXPECT_EQ(all_plots(report).size(), 2U);
    EXPECT_EQ(report.title, "training");
    const auto document = nlohmann::json::parse(report_json(report));
    const auto& series = document.at("experiments").at(0).at("plots").at(0).at("plots").at(0).at("series");
    EXPECT_EQ(series.at(0).at("marks"), false);
    EXPECT_EQ(series.at(0).at("line"), true);
    EXPECT_EQ(series.at(1).at("marks"), true);
}

}  // namespace
}  // namespace imka::report

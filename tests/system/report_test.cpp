// imka report and imka reproduce from the command line: files, exit codes, damaged records.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "imka/base/file.hpp"
#include "imka/train/performer.hpp"
#include "imka/train/progress.hpp"
#include "report/records.hpp"
#include "support/command.hpp"
#include "support/small_performer.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kMost = 1U << 28U;

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string quoted(const fs::path& path) {
    return " '" + path.string() + "'";
}

// Placeholder for Chart.js; these tests never run it.
fs::path library(const TempDir& dir) {
    std::ofstream(dir / "chart.js") << "var Chart = 1;\n";
    return dir / "chart.js";
}

std::string chart_option(const TempDir& dir) {
    return " --chart-js" + quoted(library(dir));
}

fs::path write_records(const TempDir& dir, const std::vector<imka::Record>& records) {
    std::ofstream out(dir / "records.jsonl");
    for (const auto& r : records) out << imka::to_json_line(r) << '\n';
    return dir / "records.jsonl";
}

void expect_fails(const std::string& arguments, int exit_code, const std::string& message,
                  const std::string& before = "") {
    const auto r = run_imka(arguments, before);
    EXPECT_EQ(r.exit_code, exit_code) << arguments << "\n" << r.err;
    EXPECT_TRUE(has(r.err, message)) << arguments << "\n" << r.err;
}

TEST(ReportCommand, TurnsASweepIntoAPageAndATable) {
    const TempDir dir;
    const auto sweep = run_imka("sweep smoke --quiet --set seeds=0..1 --output" + quoted(dir / "runs"));
    ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
    const auto command = "report" + quoted(dir / "runs") + chart_option(dir) + " --output" +
                         quoted(dir / "new/page.html") + " --csv" + quoted(dir / "runs.csv") + " --json";
    EXPECT_EQ(run_imka(command).exit_code, 3) << "a missing folder is not created";
    std::filesystem::create_directory(dir / "new");
    const auto r = run_imka(command);
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto j = json::parse(r.out);
    EXPECT_GT(j.at("records"), 0);
    EXPECT_EQ(j.at("flags").size(), 0U) << j.at("flags");
    EXPECT_EQ(j.at("experiments").at(0).at("name"), "smoke");
    const auto page = imka::read_file(dir / "new/page.html", kMost);
    EXPECT_EQ(j.at("page_bytes"), page.size());
    EXPECT_TRUE(has(page, "var Chart = 1;"));
    const auto csv = imka::read_file(dir / "runs.csv", kMost);
    EXPECT_EQ(std::ranges::count(csv, '\n'), j.at("records").get<std::int64_t>() + 1);
}

TEST(ReportCommand, JudgesTheMeasuredProtocol) {
    const TempDir dir;
    std::vector<imka::Record> records;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        // Published: letter, rbf, orf, r = 1, m = 31: see experiments/published/ridge.csv.
        records.push_back(make_record({.experiment = "ridge_measured",
                                       .protocol = "measured",
                                       .m = 31,
                                       .seed = seed,
                                       .accuracy = 0.2 + 0.001 * static_cast<double>(seed)}));
    }
    const auto r = run_imka("report" + quoted(write_records(dir, records)) + " --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto j = json::parse(r.out);
    EXPECT_GE(j.at("verdicts").at("deviates"), 1);
    EXPECT_EQ(j.at("verdicts").at("missing"), 358);
    EXPECT_EQ(j.at("deviating").at(0).at("dataset"), "letter");
    EXPECT_LT(j.at("deviating").at(0).at("standard_errors"), -3.0);
}

TEST(ReportCommand, UsesIntactRecordsAndFlagsTheRest) {
    const TempDir dir;
    const auto record = make_record({.seed = 1});
    auto other = record;
    other.results["accuracy"] = 0.5;
    auto failed = make_record({.seed = 2});
    failed.error = "the system is singular";
    failed.results.clear();
    auto old = json::parse(imka::to_json_line(make_record({.seed = 3})));
    old["schema"] = "imka-record-0";
    std::ofstream(dir / "records.jsonl") << imka::to_json_line(record) << '\n'
                                         << imka::to_json_line(other) << '\n'
                                         << imka::to_json_line(failed) << '\n'
                                         << old.dump() << "\nnonsense\n"
                                         << imka::to_json_line(make_record({.seed = 4})).substr(0, 200);
    const auto before = imka::read_file(dir / "records.jsonl", kMost);
    const auto r = run_imka("report" + quoted(dir / "records.jsonl") + chart_option(dir) + " --output" +
                            quoted(dir / "page.html") + " --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto j = json::parse(r.out);
    std::vector<std::string> names;
    for (const auto& flag : j.at("flags")) names.push_back(flag.at("name"));
    EXPECT_EQ(names, (std::vector<std::string>{"disagrees", "other_schema", "torn", "malformed", "failed"}));
    EXPECT_EQ(j.at("records"), 2);
    const auto page = imka::read_file(dir / "page.html", kMost);
    EXPECT_TRUE(has(page, "the system is singular"));
    EXPECT_TRUE(has(page, "records.jsonl: line 6: incomplete line"));
    EXPECT_EQ(imka::read_file(dir / "records.jsonl", kMost), before);
}

TEST(ReportCommand, ARunInTwoFoldersIsOneRun) {
    const TempDir dir;
    const TempDir copy;
    const auto a = write_records(dir, {make_record({.seed = 1})});
    const auto b = write_records(copy, {make_record({.seed = 1}), make_record({.seed = 2})});
    const auto r = run_imka("report" + quoted(a) + quoted(b) + " --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(json::parse(r.out).at("records"), 2);
}

TEST(ReportCommand, ARunOfTwoExperimentsIsListedUnderBoth) {
    const TempDir dir;
    const auto records = write_records(
        dir, {make_record({.experiment = "a", .seed = 1}), make_record({.experiment = "b", .seed = 1})});
    const auto r = run_imka("report" + quoted(records) + " --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(json::parse(r.out).at("experiments").size(), 2U);
}

TEST(ReportCommand, PrintsTheFidelityOfAChip) {
    const TempDir dir;
    std::vector<imka::Record> records;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        records.push_back(make_record(
            {.protocol = "measured", .backend = "hermes", .m = 31, .seed = seed, .gram_error = 0.3}));
    }
    const auto r = run_imka("report" + quoted(write_records(dir, records)) + " --fidelity");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    // Published: letter, rbf, orf, r = 1 on the chip: 0.268; ln(0.3 / 0.268) = 0.11.
    EXPECT_TRUE(has(r.out, "Gram error, rbf: RMS of ln(emulated / measured) 0.11")) << r.out;
    EXPECT_TRUE(has(r.out, "target: at most 0.15: met")) << r.out;
    for (auto& record : records) record.config["backend"] = "fp32";
    expect_fails("report" + quoted(write_records(dir, records)) + " --fidelity", 3,
                 "'imka reproduce fidelity' produces them");
}

TEST(ReportCommand, SaysWhatIsMissing) {
    const TempDir dir;
    const auto records = quoted(write_records(dir, {make_record({.seed = 1})}));
    expect_fails(
        "report" + records + " --output" + quoted(dir / "p.html") + " --chart-js" + quoted(dir / "none.js"),
        4, "apt-get install libjs-chart.js");
    expect_fails("report" + records + " --figures" + quoted(dir / "f"), 4, "apt-get install gnuplot-nox",
                 "PATH=/nonexistent");
    expect_fails("report" + records, 2, "nothing to do");
    expect_fails("report" + quoted(dir / "nowhere") + " --json", 2, "nowhere");
    fs::create_directory(dir / "empty");
    expect_fails("report" + quoted(dir / "empty") + " --json", 3, "no records");
    EXPECT_FALSE(fs::exists(dir / "p.html"));
    EXPECT_TRUE(fs::is_empty(dir / "f")) << "no partial files remain";
}

TEST(ReportCommand, KeepsTheOldPageWhenTheDiskIsFull) {
    const TempDir dir;
    const auto records = quoted(write_records(dir, {make_record({.seed = 1})}));
    std::ofstream(dir / "page.html") << "old";
    // Files of at most 8 blocks of 512 bytes.
    const auto r = run_imka("report" + records + chart_option(dir) + " --output" + quoted(dir / "page.html"),
                            "ulimit -f 8;");
    EXPECT_EQ(r.exit_code, 3) << r.err;
    EXPECT_EQ(imka::read_file(dir / "page.html", kMost), "old");
}

TEST(ReportCommand, DrawsFiguresForPapers) {
    if (std::system("command -v gnuplot > /dev/null 2>&1") != 0)
        GTEST_SKIP() << "gnuplot-nox is not installed";
    const TempDir dir;
    std::vector<imka::Record> records;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        for (int r = 1; r <= 3; ++r) {
            records.push_back(make_record({.dataset = "it's `odd`\n$x @y 100%",
                                           .log_ratio = static_cast<double>(r),
                                           .m = 16 << r,
                                           .seed = seed}));
        }
    }
    const auto r =
        run_imka("report" + quoted(write_records(dir, records)) + " --figures" + quoted(dir / "f"));
    ASSERT_EQ(r.exit_code, 0) << r.err;
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir / "f")) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    EXPECT_EQ(names, (std::vector<std::string>{
                         "mine-it-s-odd-x-y-100-rbf-accuracy.pdf", "mine-it-s-odd-x-y-100-rbf-accuracy.svg",
                         "mine-it-s-odd-x-y-100-rbf-gram.pdf", "mine-it-s-odd-x-y-100-rbf-gram.svg"}));
    EXPECT_TRUE(imka::read_file(dir / "f" / names[0], kMost).starts_with("%PDF-"));
    const auto svg = imka::read_file(dir / "f" / names[1], kMost);
    EXPECT_TRUE(has(svg, "<svg"));
    EXPECT_TRUE(has(svg, "it's  odd  $x @y 100%")) << "the text unchanged, without gnuplot commands";
}

TEST(ReproduceCommand, ListsTheReproductions) {
    const auto r = run_imka("reproduce list --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto list = json::parse(r.out).at("reproductions");
    ASSERT_EQ(list.size(), 21U);
    EXPECT_EQ(list.at(0).at("name"), "ridge");
    EXPECT_EQ(list.at(0).at("runs"), 3600);
    EXPECT_EQ(list.at(1).at("name"), "fidelity");
    EXPECT_EQ(list.at(1).at("runs"), 2400);
    EXPECT_EQ(list.at(4).at("runs"), 450);
    EXPECT_EQ(list.at(20).at("name"), "data");
    EXPECT_EQ(list.at(20).at("runs"), 0);
}

TEST(ReproduceCommand, ChecksBeforeItRuns) {
    const TempDir dir;
    expect_fails("reproduce nothing --output" + quoted(dir / "r"), 2,
                 "known: ridge, fidelity, ridge_fp32, ridge_measured, liu, choromanski, attention_error, "
                 "attention_error_trained, attention_scaling, table1, full_test, relu, resampling, "
                 "saved_omega, shared_omega, width, hwa_noise, embedding_init, performer_drift, "
                 "hyper_parameters, data, "
                 "all, list");
    expect_fails("reproduce liu --models models --output" + quoted(dir / "r"), 2,
                 "--models has no effect: liu uses no trained models");
    expect_fails("reproduce liu --output" + quoted(dir / "r") + " --chart-js" + quoted(dir / "none.js"), 4,
                 "apt-get install libjs-chart.js");
    EXPECT_FALSE(fs::exists(dir / "r"));
}

TEST(ReproduceCommand, PrintsSettingsBesideThePublishedOnes) {
    const TempDir dir;
    const auto r =
        run_imka("reproduce hyper_parameters --output" + quoted(dir / "new/runs") + chart_option(dir));
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_TRUE(has(r.out, "* 22000 (10000)")) << r.out;
    EXPECT_TRUE(has(r.out, "released: 16,000; the text says 20,000")) << r.out;
    EXPECT_TRUE(has(imka::read_file(dir / "new/runs/hyper_parameters.html", kMost), "Settings of training"));
}

TEST(ReproduceCommand, SaysHowToTrainWhatIsMissing) {
    const TempDir dir;
    expect_fails("reproduce relu --quiet --models" + quoted(dir.path()) + " --output" + quoted(dir / "r") +
                     chart_option(dir),
                 4, "to train it: imka train --task cifar10_relu --output runs/cifar10_relu-vanilla && cp");
    expect_fails("reproduce hwa_noise --quiet --models" + quoted(dir.path()) + " --output" +
                     quoted(dir / "r") + chart_option(dir),
                 4, "to train it: imka train --task cifar10_hwa_fitted --from");
    expect_fails("reproduce attention_error_trained --quiet --models" + quoted(dir.path()) + " --output" +
                     quoted(dir / "r") + chart_option(dir),
                 4, "imka train --task imdb_hwa --from");
}

// A model of the generated task takes the place of the imdb model.
TEST(ReproduceCommand, TakesQueriesKeysAndValuesFromAModel) {
    const TempDir dir;
    imka::save_performer(dir / "imdb-hwa.safetensors", untrained_tiny());
    const auto command =
        "reproduce attention_error_trained --quiet --seeds 0 --set n_directions=[7,15] --set "
        "backend=fp32 --set sequences=4 --models" +
        quoted(dir.path()) + " --output" + quoted(dir / "r") + chart_option(dir);
    const auto first = run_imka(command);
    ASSERT_EQ(first.exit_code, 0) << first.err;
    EXPECT_TRUE(has(first.out, "error of the output")) << first.out;
    const auto again = run_imka(command);
    ASSERT_EQ(again.exit_code, 0) << again.err;
    std::size_t dumps = 0;
    for (const auto& entry : fs::directory_iterator(dir / "r" / "attention_error_trained"))
        dumps += entry.path().extension() == ".npy" ? 1 : 0;
    EXPECT_EQ(dumps, 1U);
}

TEST(ReproduceCommand, ShowsTheLearningCurvesOfItsModels) {
    const TempDir dir;
    imka::save_performer(dir / "tiny-vanilla.safetensors", untrained_tiny());
    fs::create_directories(dir / "logs");
    for (const auto* name : {"tiny-vanilla", "other"})
        write_text(dir / "logs" / (name + std::string(".jsonl")),
                   imka::event_json({.kind = "train", .step = 50, .loss = 1.0, .accuracy = 0.5}) + "\n");
    const auto j = json_of(
        "reproduce table1 --quiet --seeds 0 --set dataset=tiny --set samples=20 --set "
        "calibration_examples=20 --models" +
        quoted(dir.path()) + " --output" + quoted(dir / "r") + chart_option(dir));
    const auto& plots = j.at("experiments").at(0).at("plots").at(0).at("plots");
    ASSERT_EQ(plots.size(), 2U) << "of the model that was tested";
    EXPECT_EQ(plots.at(0).at("title"), "tiny-vanilla: loss");
    // imka report shows all logs of a folder.
    const auto all = json_of("report --logs" + quoted(dir / "logs"));
    EXPECT_EQ(all.at("experiments").at(0).at("plots").at(0).at("plots").size(), 4U);
    expect_fails("report", 2, "expected folders or files of records, or --logs");
}

}  // namespace

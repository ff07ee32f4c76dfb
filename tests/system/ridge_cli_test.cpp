// imka ridge and imka gram as commands: regression, few rows, models, predictions as CSV, options without
// effect, output paths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "imka/base/file.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/io/text.hpp"
#include "support/command.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kMost = std::size_t{1} << 26U;

std::string quoted(const std::filesystem::path& path) {
    return " '" + path.string() + "'";
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
    std::istringstream in(imka::read_file(path, kMost));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

// Two inputs and the label of `label(r)`.
template <class Label>
std::string csv(int rows, const Label& label) {
    std::string text = "a,b,label\n";
    for (int r = 0; r < rows; ++r) {
        const double a = (r * 37 % 101) / 50.0 - 1.0;
        const double b = (r * 53 % 97) / 48.0 - 1.0;
        text += std::to_string(a) + "," + std::to_string(b) + "," + label(r, a, b) + "\n";
    }
    return text;
}

std::string product(int /*r*/, double a, double b) {
    return std::to_string(100.0 + 3.0 * a + a * b);
}

std::string error_text(const std::string& arguments, int exit_code) {
    const auto r = run_imka(arguments);
    EXPECT_EQ(r.exit_code, exit_code) << arguments << "\n" << r.out << r.err;
    return r.err;
}

TEST(RidgeRegression, OfAGeneratorPrintsTheBestPossible) {
    const std::string run =
        "ridge --task regression --dataset friedman1 --n-components 1000 --gamma 0.05 --alpha 0.01";
    const auto j = json_of(run + " --seeds 0..2");
    EXPECT_EQ(j["task"], "regression");
    EXPECT_EQ(j["r2"]["values"].size(), 3U);
    EXPECT_GT(j["r2"]["mean"], 0.9);
    EXPECT_LT(j["r2"]["mean"], 0.9598);
    EXPECT_GT(j["rmse"]["mean"], 1.0);
    EXPECT_LT(j["rmse"]["mean"], 1.5);
    EXPECT_FALSE(j.contains("accuracy"));
    const auto r = run_imka(run);
    EXPECT_THAT(r.out, AllOf(HasSubstr("test R²"), HasSubstr("test RMSE"),
                             HasSubstr("best possible    R² 0.9597, RMSE 1 (noise")));
}

TEST(RidgeRegression, RunsOnAChipInEveryWay) {
    for (const auto* fit_on : {"fp32", "chip", "chips --fit-draws 2"}) {
        const auto j = json_of(
            "ridge --task regression --dataset friedman1 --n-components 40 --gram-rows 0 "
            "--backend hermes --fit-on " +
            std::string(fit_on));
        EXPECT_GT(j["r2"]["mean"], 0.3) << fit_on;
    }
}

TEST(RidgeRegression, SavesLoadsAndPredictsNumbers) {
    const TempDir dir;
    imka::write_file_atomic(dir / "train.csv", csv(300, product));
    imka::write_file_atomic(dir / "test.csv", csv(90, product));
    const auto pair = " '" + (dir / "train.csv").string() + ":" + (dir / "test.csv").string() + "'";
    const auto fit = json_of(
        "ridge --task regression --intercept free --alpha 0.01 --n-components 64 "
        "--dataset" +
        pair + " --save" + quoted(dir / "m"));
    EXPECT_GT(fit["r2"]["mean"], 0.99);
    const auto predict = "ridge --load" + quoted(dir / "m") + " --predict" + quoted(dir / "test.csv") +
                         " --output" + quoted(dir / "p.csv");
    const auto done = json_of(predict);
    EXPECT_NEAR(done["r2"].get<double>(), fit["r2"]["mean"].get<double>(), 1e-9);
    EXPECT_NEAR(done["rmse"].get<double>(), fit["rmse"]["mean"].get<double>(), 1e-9);
    const auto lines = lines_of(dir / "p.csv");
    ASSERT_EQ(lines.size(), 91U);
    EXPECT_EQ(lines[0], "prediction");
    EXPECT_NEAR(imka::parse_double(lines[1]).value(), 102.0 - 1.0 - 3.0 + 0.0, 3.0);
    EXPECT_GT(lines[7].size(), 12U) << "full precision: " << lines[7];
    EXPECT_THAT(run_imka(predict).out, AllOf(HasSubstr("RMSE on the 90 labelled rows"), HasSubstr("R² 0.9")));
    // One file is split into halves.
    EXPECT_GT(json_of("ridge --task regression --alpha 0.01 --intercept free --n-components 64 --dataset" +
                      quoted(dir / "train.csv"))["r2"]["mean"],
              0.99);
    // A label that is not a number.
    imka::write_file_atomic(dir / "bad.csv", csv(5, [](int r, double, double) -> std::string {
                                return r == 2 ? "tall" : "1.5";
                            }));
    EXPECT_THAT(error_text("ridge --load" + quoted(dir / "m") + " --predict" + quoted(dir / "bad.csv") +
                               " --output" + quoted(dir / "q.csv"),
                           3),
                AllOf(HasSubstr("row 3"), HasSubstr("'tall'")));
    EXPECT_FALSE(std::filesystem::exists(dir / "q.csv"));
}

TEST(RidgeRegression, RefusesOtherLabels) {
    const TempDir dir;
    imka::write_file_atomic(
        dir / "x.csv", csv(20, [](int r, double, double) -> std::string { return r == 6 ? "n/k" : "2.5"; }));
    EXPECT_THAT(error_text("ridge --task regression --dataset" + quoted(dir / "x.csv"), 3),
                AllOf(HasSubstr("x.csv: row 7"), HasSubstr("'n/k'")));
    imka::write_file_atomic(dir / "big.csv", csv(20, [](int r, double, double) -> std::string {
                                return r == 6 ? "1e300" : "2.5";
                            }));
    EXPECT_THAT(error_text("ridge --task regression --dataset" + quoted(dir / "big.csv"), 3),
                AllOf(HasSubstr("row 7"), HasSubstr("'1e+300'")));
    for (const auto* name : {"ringnorm", "letter"})
        EXPECT_THAT(error_text(std::string("ridge --task regression --dataset ") + name, 2),
                    HasSubstr(std::string(name) + " has classes"));
    EXPECT_THAT(error_text("ridge --dataset friedman1", 2),
                HasSubstr("friedman1 has numbers as labels; task classification needs classes"));
    EXPECT_THAT(error_text("ridge --task ranking", 2), HasSubstr("regression"));
}

TEST(RidgeRegression, RunsInASweepAndAReport) {
    const TempDir dir;
    imka::write_file_atomic(dir / "e.yaml",
                            "name: numbers\nbase: {task: regression, dataset: friedman1, gram_rows: 0}\n"
                            "grid: {n_components: [20, 40], seeds: [0, 1]}\n");
    const auto sweep = run_imka("sweep" + quoted(dir / "e.yaml") + " --quiet --output" + quoted(dir / "s"));
    ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
    const auto report = run_imka("report" + quoted(dir / "s") + " --json --csv" + quoted(dir / "all.csv"));
    ASSERT_EQ(report.exit_code, 0) << report.err;
    EXPECT_THAT(lines_of(dir / "all.csv").at(0), AllOf(HasSubstr("r2"), HasSubstr("rmse")));
    EXPECT_EQ(lines_of(dir / "all.csv").size(), 5U);
}

// n = 50, D = 20,000: the n x n system takes a moment, the D x D system minutes.
TEST(RidgeFewRows, AreSolvedByTheSmallerSystem) {
    const TempDir dir;
    const auto label = [](int, double a, double b) { return std::string(a * b > 0.0 ? "in" : "out"); };
    imka::write_file_atomic(dir / "train.csv", csv(50, label));
    imka::write_file_atomic(dir / "test.csv", csv(60, label));
    const auto j = json_of("ridge --n-components 20000 --dataset '" + (dir / "train.csv").string() + ":" +
                           (dir / "test.csv").string() + "'");
    EXPECT_EQ(j["solver"], "dual");
    EXPECT_EQ(j["D"], 20000);
    EXPECT_GT(j["accuracy"]["mean"], 0.8);
    EXPECT_EQ(json_of("ridge --n-components 20 --gram-rows 0")["solver"], "primal");
}

TEST(RidgePredictions, LabelsComeBackThroughTheCsvReader) {
    const TempDir dir;
    const std::vector<std::string> names = {"a,b", " lead", "say \"hi\"", "tab\tin", "plain", "trail "};
    imka::write_file_atomic(dir / "x.csv", csv(240, [&](int r, double, double) {
                                const auto& name = names[static_cast<std::size_t>(r) % names.size()];
                                std::string field = "\"";
                                for (const char c : name)
                                    field += c == '"' ? std::string("\"\"") : std::string(1, c);
                                return field + "\"";
                            }));
    (void)json_of("ridge --n-components 300 --alpha 1e-4 --gram-rows 0 --dataset" + quoted(dir / "x.csv") +
                  " --save" + quoted(dir / "m"));
    (void)json_of("ridge --load" + quoted(dir / "m") + " --predict" + quoted(dir / "x.csv") + " --output" +
                  quoted(dir / "p.csv"));
    // The reader needs a feature in addition to the label.
    std::string table = "f,class\n";
    const auto lines = lines_of(dir / "p.csv");
    for (std::size_t i = 1; i < lines.size(); ++i) table += "0," + lines[i] + "\n";
    imka::write_file_atomic(dir / "t.csv", table);
    const auto reader = imka::open_rows(dir / "t.csv", {});
    std::size_t rows = 0;
    std::vector<bool> seen(names.size());
    for (imka::Row row; reader->next(row); ++rows) {
        const auto place = std::ranges::find(names, row.label);
        ASSERT_NE(place, names.end()) << "'" << row.label << "'";
        seen[static_cast<std::size_t>(place - names.begin())] = true;
    }
    EXPECT_EQ(rows, 240U);
    EXPECT_EQ(std::ranges::count(seen, true), static_cast<std::ptrdiff_t>(names.size()));
}

TEST(JsonOfOneSeed, HasNoSpread) {
    for (const auto* run : {"ridge --n-components 20 --seed 1", "gram --n-components 20 --seed 1"}) {
        const auto j = json_of(run);
        EXPECT_TRUE(j["gram_error"]["std"].is_null()) << run;
        EXPECT_TRUE(j["gram_error"]["ci95"].is_null()) << run;
        EXPECT_TRUE(j["gram_error"]["mean"].is_number()) << run;
    }
    const auto two = json_of("gram --n-components 20 --seeds 1,2");
    EXPECT_GT(two["gram_error"]["std"], 0.0);
    for (const auto* run : {"chip mvm --rows 20 --cols 20 --inputs 20 --seeds 1",
                            "chip explain --rows 20 --cols 20 --inputs 20 --seeds 1"}) {
        const auto text = run_imka(std::string(run) + " --json").out;
        EXPECT_THAT(text, Not(HasSubstr("\"std\": 0.0"))) << run;
        EXPECT_THAT(text, HasSubstr("\"std\": null")) << run;
    }
}

TEST(GramError, TakesDataSetsOfRegression) {
    EXPECT_EQ(json_of("gram --dataset friedman1 --task regression --n-components 20")["dataset"],
              "friedman1");
}

TEST(OptionsWithoutEffect, AreErrorsThatNameThem) {
    const TempDir dir;
    ASSERT_EQ(run_imka("ridge --n-components 20 --gram-rows 0 --save" + quoted(dir / "m")).exit_code, 0);
    imka::write_file_atomic(dir / "x.csv", csv(4, product));
    imka::write_file_atomic(dir / "s.yaml", "gamma: 0.3\n");
    const auto predict = "ridge --load" + quoted(dir / "m") + " --predict" + quoted(dir / "x.csv") +
                         " --output" + quoted(dir / "p.csv");
    for (const auto* option :
         {"--gamma 0.1", "--kernel rbf", "--sampler orf", "--norms sqrt", "--n-components 7", "--log-ratio 2",
          "--alpha 2", "--intercept free", "--task regression", "--dataset ringnorm", "--protocol measured",
          "--split-seed 3", "--gram-rows 5", "--seed 4", "--chip-seed 1", "--at 1h",
          "--backend hermes --fit-on chip"}) {
        const std::string text(option);
        const auto last = text.substr(text.rfind("--"));
        EXPECT_THAT(error_text(predict + " " + text, 2), HasSubstr(last.substr(0, last.find(' ')))) << option;
    }
    EXPECT_THAT(error_text(predict + " --set alpha=3", 2), HasSubstr("--set alpha"));
    EXPECT_THAT(error_text(predict + " --config" + quoted(dir / "s.yaml"), 2), HasSubstr("gamma"));
    EXPECT_THAT(error_text(predict + " --save" + quoted(dir / "n"), 2), HasSubstr("--save"));
    EXPECT_FALSE(std::filesystem::exists(dir / "p.csv"));
    EXPECT_THAT(error_text("ridge --save ''", 2), HasSubstr("--save"));
    for (const auto* verb : {"ridge", "gram"})
        EXPECT_THAT(error_text(std::string(verb) + " --kernel arccos1 --gamma 0.1", 2),
                    HasSubstr("--gamma has no effect"));
    for (const auto* setting : {"alpha=2", "intercept=free", "fit_on=chip"})
        EXPECT_THAT(error_text("gram --backend hermes --set " + std::string(setting), 2),
                    HasSubstr(std::string("--set ") + std::string(setting).substr(0, 3)));
}

TEST(OutputPaths, NameAMissingFolderBeforeTheWork) {
    const TempDir dir;
    const auto missing = (dir / "no").string();
    imka::write_file_atomic(dir / "x.csv", csv(20, product));
    for (const auto& arguments : {std::string("ridge --save '") + missing + "/m'",
                                  "features --input" + quoted(dir / "x.csv") +
                                      " --gamma 1 --n-components 8 --output '" + missing + "/z.npy'",
                                  "data generate ringnorm --rows 5 --output '" + missing + "/x.csv'",
                                  "chip program --rows 8 --cols 8 --output '" + missing + "/c'",
                                  "chip age --figure '" + missing + "/a.svg'"}) {
        const auto r = run_imka(arguments);
        if (r.exit_code == 4) continue;  // no gnuplot
        EXPECT_EQ(r.exit_code, 3) << arguments << r.err;
        EXPECT_THAT(r.err, HasSubstr("no folder " + missing)) << arguments;
        EXPECT_FALSE(std::filesystem::exists(missing)) << arguments;
    }
}

// Advice names options that exist in the verb.
TEST(SingularSystem, GetsAdviceThatExists) {
    const TempDir dir;
    std::string rows = "a,b,label\n";
    for (int i = 0; i < 40; ++i) rows += i % 2 == 0 ? "0,0,x\n" : "0,0,y\n";
    imka::write_file_atomic(dir / "zero.csv", rows);
    const auto run =
        "ridge --kernel arccos0 --n-components 4 --gram-rows 0 --dataset" + quoted(dir / "zero.csv");
    EXPECT_THAT(error_text(run + " --alpha 0", 3),
                AllOf(HasSubstr("not positive definite"), HasSubstr("try --alpha above 0")));
    EXPECT_EQ(run_imka(run + " --alpha 1").exit_code, 0);
}

}  // namespace

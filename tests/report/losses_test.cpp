// Losses of accuracy on a chip: pairing of runs, and averages over pairs.
#include "imka/report/averages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "report/records.hpp"

namespace imka::report {
namespace {

Record run(const std::string& dataset, const std::string& backend, std::uint64_t seed, double accuracy) {
    return make_record({.dataset = dataset, .backend = backend, .seed = seed, .accuracy = accuracy});
}

TEST(Losses, AreMeansOverDataSetsOfDifferencesOfOneSeed) {
    std::vector<Record> records = {
        run("letter", "fp32", 0, 0.90),   run("letter", "fp32", 1, 0.80),   run("eeg", "fp32", 0, 0.70),
        run("letter", "hermes", 0, 0.88), run("letter", "hermes", 1, 0.76), run("eeg", "hermes", 0, 0.71),
        run("eeg", "hermes", 2, 0.10),  // without an FP32 run
    };
    EXPECT_EQ(losses_of(records).at(0).error, 0.0) << "one seed of eeg has no spread";
    records.push_back(run("eeg", "fp32", 1, 0.60));
    records.push_back(run("eeg", "hermes", 1, 0.61));
    const auto rows = losses_of(records);
    ASSERT_EQ(rows.size(), 1U);
    const auto& row = rows[0];
    EXPECT_EQ(row.chip, "hermes");
    EXPECT_EQ(row.datasets, 2U);
    EXPECT_EQ(row.pairs, 4U);
    EXPECT_NEAR(row.mean, 0.01, 1e-12) << "letter loses 0.03, eeg gains 0.01";
    EXPECT_NEAR(row.error, 0.005, 1e-12) << "letter: 0.02 / sqrt(2) / sqrt(2) = 0.01, over two data sets";
    EXPECT_NEAR(row.most, 0.03, 1e-12);
    EXPECT_EQ(row.worst, "letter");
}

TEST(Losses, NameTheSettingsThatDistinguishRuns) {
    std::vector<Record> records = {run("letter", "fp32", 0, 0.9), run("letter", "hermes", 0, 0.8),
                                   run("letter", "hermes", 1, 0.8), run("letter", "hermes", 0, 0.85)};
    for (auto& r : records) {
        if (r.setting("backend") == "hermes") r.config["output_calibration"] = "least_squares";
    }
    records[3].config["output_calibration"] = "centred";
    const auto rows = losses_of(records);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].chip, "hermes");
    EXPECT_EQ(rows[1].chip, "hermes, output_calibration centred");
    EXPECT_NEAR(rows[1].mean, 0.05, 1e-12);
}

TEST(Losses, ASettingOfADataSetDoesNotMakeARow) {
    std::vector<Record> records;
    for (const auto* dataset : {"eeg", "letter"}) {
        for (const std::uint64_t seed : {0U, 1U}) {
            records.push_back(run(dataset, "fp32", seed, 0.9));
            records.push_back(run(dataset, "hermes", seed, 0.8));
            records.back().config["input_alpha"] = dataset == std::string("eeg") ? "2" : "auto";
        }
    }
    EXPECT_EQ(losses_of(records).size(), 1U) << "eeg is always clipped, letter never";
    records.push_back(run("letter", "hermes", 0, 0.7));
    records.back().config["input_alpha"] = "3";
    const auto rows = losses_of(records);
    ASSERT_EQ(rows.size(), 2U) << "letter is clipped in one run only";
    EXPECT_EQ(rows[1].chip, "hermes, input_alpha 3");
    EXPECT_EQ(rows[1].datasets, 1U);
}

TEST(Losses, OtherSplitsAreNotPairs) {
    auto exact = run("letter", "fp32", 0, 0.9);
    exact.config["split_seed"] = "42";
    EXPECT_TRUE(losses_of({exact, run("letter", "hermes", 0, 0.8)}).empty());
}

TEST(Losses, WithOtherNormsCompareWithTheUsualNorms) {
    auto sqrt = run("letter", "fp32", 0, 0.5);
    sqrt.config["norms"] = "sqrt";
    auto chip = run("letter", "hermes", 0, 0.8);
    chip.config["norms"] = "sqrt";
    for (const auto& records : {std::vector{sqrt, run("letter", "fp32", 0, 0.9), chip},
                                std::vector{run("letter", "fp32", 0, 0.9), sqrt, chip}}) {
        const auto rows = losses_of(records);
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_NEAR(rows[0].mean, 0.1, 1e-12);
    }
}

}  // namespace
}  // namespace imka::report

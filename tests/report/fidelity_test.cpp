// Emulated against measured chip: expected results for synthetic records.
#include "imka/report/fidelity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "imka/report/report.hpp"
#include "report/records.hpp"

namespace {

using namespace imka::report;
using imka::FidelityCell;
using imka::FidelityScore;
using imka::published_values;
using imka::Quantity;
using imka::Record;

// Two seeds in every cell with published chip values: Gram errors factor · mean · (1 ± 0.05), accuracies
// shifted.
std::vector<Record> emulated(double factor, double shift, const std::string& backend = "hermes") {
    std::map<std::string, Record> runs;
    for (const auto& p : published_values()) {
        if (p.backend != "hermes") continue;
        for (std::uint64_t seed = 0; seed < 2; ++seed) {
            const double sign = seed == 0 ? 1.0 : -1.0;
            const auto name =
                p.dataset + p.kernel + p.sampler + std::to_string(1000 * p.m + std::int64_t(seed));
            auto [place, is_new] = runs.try_emplace(name, make_record({.experiment = "fidelity",
                                                                       .dataset = p.dataset,
                                                                       .protocol = "measured",
                                                                       .kernel = p.kernel,
                                                                       .sampler = p.sampler,
                                                                       .backend = backend,
                                                                       .log_ratio = p.log_ratio,
                                                                       .m = p.m,
                                                                       .seed = seed}));
            place->second.results[std::string(imka::to_string(p.quantity))] =
                p.quantity == Quantity::accuracy ? p.value.mean + shift
                                                 : factor * p.value.mean * (1.0 + 0.05 * sign);
        }
    }
    std::vector<Record> records;
    for (auto& [name, record] : runs) records.push_back(record);
    return records;
}

Fidelity fidelity(const std::vector<Record>& records) {
    const auto all = fidelity_of(make_figures(records, published_values()), "fidelity");
    EXPECT_EQ(all.size(), 1U);
    return all.at(0);
}

TEST(Fidelity, OfAConstantFactorIsItsLogarithm) {
    const auto f = fidelity(emulated(1.1, 0.0));
    EXPECT_EQ(f.chip, "hermes");
    ASSERT_EQ(f.cells.size(), 120U);
    ASSERT_EQ(f.rows.size(), 8U) << "four data sets, two kernels";
    for (const auto& row : f.rows) {
        EXPECT_EQ(row.cells, 15U);
        EXPECT_NEAR(row.rms, std::log(1.1), 1e-12);
        EXPECT_NEAR(row.bias, std::log(1.1), 1e-12);
        EXPECT_EQ(row.accuracy_agrees, 15U);
    }
    ASSERT_EQ(f.totals.size(), 3U);
    EXPECT_EQ(f.totals[0].kernel, "rbf");
    EXPECT_EQ(f.totals[0].cells, 60U);
    EXPECT_NEAR(f.totals[2].rms, std::log(1.1), 1e-12);
    ASSERT_EQ(f.aims.size(), 3U);
    for (const auto& aim : f.aims) EXPECT_TRUE(aim.met) << aim.quantity;
}

TEST(Fidelity, TargetsDifferBetweenKernels) {
    // ln 1.145 = 0.135 lies between the targets 0.12 and 0.15; accuracies differ by more than any spread.
    const auto f = fidelity(emulated(1.145, 0.2));
    EXPECT_TRUE(f.aims.at(0).met);
    EXPECT_FALSE(f.aims.at(1).met);
    EXPECT_FALSE(f.aims.at(2).met);
    EXPECT_EQ(f.totals.at(2).accuracy_agrees, 0U);
    EXPECT_EQ(f.totals.at(2).accuracy_cells, 120U);
}

TEST(Fidelity, NoiseCombinesBothMeans) {
    FidelityCell c;
    // Standard errors: 0.03 / sqrt(9) = 0.01 of 0.2, 0.06 / sqrt(4) = 0.03 of 0.25: relative 0.05 and 0.12.
    c.error = {.mean = 0.2, .std = 0.03, .n = 9};
    c.error_measured = {.mean = 0.25, .std = 0.06, .n = 4};
    EXPECT_NEAR(c.residual(), std::log(0.8), 1e-12);
    EXPECT_NEAR(c.residual_error(), 0.13, 1e-12);
    FidelityScore row{.rms = 0.13, .noise = 0.05};
    EXPECT_NEAR(row.excess(), 0.12, 1e-12);
    row.noise = 0.2;
    EXPECT_EQ(row.excess(), 0.0);
}

TEST(Fidelity, AccuraciesAgreeWithinTwoErrorsOrHalfAPoint) {
    const auto agrees = [](double difference, double std) {
        FidelityCell c;
        c.accuracy = imka::Summary{.mean = 0.8 + difference, .std = std, .n = 1};
        c.accuracy_measured = imka::Summary{.mean = 0.8, .std = 0.0, .n = 1};
        return c.accuracy_agrees();
    };
    EXPECT_TRUE(agrees(0.0049, 0.0));
    EXPECT_FALSE(agrees(-0.0051, 0.0));
    EXPECT_TRUE(agrees(-0.0199, 0.01));
    EXPECT_FALSE(agrees(0.0201, 0.01));
}

TEST(Fidelity, NeedsTheMeasuredProtocolAndAChip) {
    auto records = emulated(1.0, 0.0);
    for (auto& r : records) r.config["protocol"] = "default";
    EXPECT_TRUE(fidelity_of(make_figures(records, published_values()), "fidelity").empty());
    records = emulated(1.0, 0.0, "fp32");
    EXPECT_TRUE(fidelity_of(make_figures(records, published_values()), "fidelity").empty());
}

TEST(Fidelity, HasOneResultPerChip) {
    auto records = emulated(1.1, 0.0);
    const auto more = emulated(1.3, 0.0, "mine.yaml");
    records.insert(records.end(), more.begin(), more.end());
    const auto all = fidelity_of(make_figures(records, published_values()), "fidelity");
    ASSERT_EQ(all.size(), 2U);
    EXPECT_NEAR(all[0].totals[2].rms, std::log(1.1), 1e-12);
    EXPECT_EQ(all[1].chip, "mine.yaml");
    EXPECT_NEAR(all[1].totals[2].rms, std::log(1.3), 1e-12);
}

TEST(Fidelity, IsInTheDocument) {
    imka::RecordSet set;
    set.records = emulated(1.1, 0.0);
    const auto report = make_report(set, "");
    ASSERT_EQ(report.sections.size(), 1U);
    EXPECT_EQ(report.sections[0].fidelity_plots.size(), 4U) << "two per kernel";
    const auto j = nlohmann::json::parse(report_json(report)).at("experiments").at(0).at("fidelity").at(0);
    EXPECT_EQ(j.at("cells").size(), 120U);
    EXPECT_NEAR(j.at("aims").at(0).at("value").get<double>(), std::log(1.1), 1e-12);
    for (const auto& plot : all_plots(report)) EXPECT_FALSE(plot.alt.empty());
}

}  // namespace

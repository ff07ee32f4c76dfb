// Grouping over seeds, published values and verdicts.
#include "imka/report/figure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "imka/metrics/metrics.hpp"
#include "report/records.hpp"
#include "support/error.hpp"

namespace {

using namespace imka::report;
using imka::parse_published;
using imka::Published;
using imka::published_values;
using imka::Quantity;
using imka::Record;
using testing::HasSubstr;

const Figure& figure_of(const std::vector<Figure>& figures, Quantity quantity) {
    const auto place = std::ranges::find(figures, quantity, &Figure::quantity);
    EXPECT_NE(place, figures.end());
    return *place;
}

Published letter_accuracy(double mean, double std) {
    return {.table = "ridge",
            .dataset = "letter",
            .kernel = "rbf",
            .sampler = "orf",
            .log_ratio = 1.0,
            .m = 31,
            .quantity = Quantity::accuracy,
            .value = {.mean = mean, .std = std, .n = 4}};
}

// Four measured runs of one cell: mean 0.9, standard deviation 0.02 · sqrt(5/3).
std::vector<Record> measured_cell(std::int64_t m) {
    std::vector<Record> records;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        records.push_back(make_record({.protocol = "measured",
                                       .m = m,
                                       .seed = seed,
                                       .accuracy = 0.87 + 0.02 * static_cast<double>(seed)}));
    }
    return records;
}

TEST(Figures, GroupRunsOverSeedsAndSplits) {
    auto records = measured_cell(31);
    records[2].config["split_seed"] = "2";
    const auto figures = make_figures(records, {});
    ASSERT_EQ(figures.size(), 2U) << "accuracy and Gram error";
    const auto& curve = figure_of(figures, Quantity::accuracy).curves.at(0);
    ASSERT_EQ(curve.points.size(), 1U);
    const auto& p = curve.points[0];
    const auto expected = imka::summarize({0.87, 0.89, 0.91, 0.93});
    EXPECT_EQ(p.ours.n, 4U);
    EXPECT_NEAR(p.ours.mean, expected.mean, 1e-14);
    EXPECT_NEAR(p.ours.std, expected.std, 1e-14);
    EXPECT_NEAR(p.ours.half_width, expected.half_width, 1e-14);
    EXPECT_EQ(seeds_text(p.seeds), "0..3");
}

TEST(Figures, DoNotDependOnTheOrderOfRecords) {
    auto records = ridge_grid("mine", "default", 3);
    const auto a = make_figures(records, published_values());
    std::ranges::reverse(records);
    const auto b = make_figures(records, published_values());
    ASSERT_EQ(a.size(), 24U);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].dataset, b[i].dataset);
        for (std::size_t c = 0; c < a[i].curves.size(); ++c) {
            EXPECT_EQ(a[i].curves[c].label(), b[i].curves[c].label());
            EXPECT_EQ(a[i].curves[c].points.at(4).ours.mean, b[i].curves[c].points.at(4).ours.mean);
        }
    }
    EXPECT_EQ(a[0].kernel, "rbf") << "kernels in the order of the registry";
    EXPECT_EQ(a[0].curves[0].sampler, "rff");
}

TEST(Figures, SeparateOtherSettings) {
    auto records = measured_cell(31);
    records[0].config["gamma"] = "0.1";
    const auto figures = make_figures(records, {});
    const auto& curves = figure_of(figures, Quantity::accuracy).curves;
    ASSERT_EQ(curves.size(), 2U);
    EXPECT_EQ(curves[0].label(), "orf, gamma 0.05");
    EXPECT_EQ(curves[1].label(), "orf, gamma 0.1");
}

Record chip_record(const std::string& backend, const std::string& seconds, const std::string& hash) {
    auto r = make_record({});
    r.config["backend"] = backend;
    r.config["chip_hash"] = hash;
    r.config["chip_set"] = "";
    r.config["read_seconds"] = seconds;
    return r;
}

TEST(Figures, NameChipsBySettingsThatVaryAmongChips) {
    // The exact run has no chip settings; two chips have two hashes, which are not shown.
    const auto figures = make_figures({make_record({}), chip_record("hermes", "0", "aa"),
                                       chip_record("hermes", "60", "aa"), chip_record("ideal", "0", "bb")},
                                      {});
    std::vector<std::string> labels;
    for (const auto& c : figure_of(figures, Quantity::accuracy).curves) labels.push_back(c.label());
    EXPECT_THAT(labels, testing::UnorderedElementsAre("orf", "orf, hermes, read_seconds 0",
                                                      "orf, hermes, read_seconds 60", "orf, ideal"));
}

TEST(Figures, AcceptRecordsWithFewOrNoSettings) {
    auto records = measured_cell(31);
    records.resize(1);
    records[0].config.clear();
    const auto figures = make_figures(records, published_values());
    ASSERT_EQ(figures.size(), 2U);
    EXPECT_EQ(figures[0].curves.at(0).points.at(0).ours.n, 1U);
}

TEST(Figures, LeaveOutFailedRuns) {
    auto records = measured_cell(31);
    records[0].error = "singular";
    records[0].results.clear();
    const auto figures = make_figures(records, {});
    EXPECT_EQ(figures.at(0).curves.at(0).points.at(0).ours.n, 3U);
}

TEST(Verdict, FollowsThreeCombinedStandardErrors) {
    // Standard errors: ours sqrt(0.002/3)/2 = 0.012910, theirs 0.01/2 = 0.005: combined 0.013844.
    const auto judged = [](double published_mean) {
        const auto figures = make_figures(measured_cell(31), {letter_accuracy(published_mean, 0.01)});
        return figure_of(figures, Quantity::accuracy).curves.at(0).points.at(0);
    };
    EXPECT_EQ(judged(0.9 - 2.99 * 0.013844).verdict, Verdict::reproduced);
    EXPECT_EQ(judged(0.9 + 2.99 * 0.013844).verdict, Verdict::reproduced);
    EXPECT_EQ(judged(0.9 - 3.01 * 0.013844).verdict, Verdict::deviates);
    EXPECT_NEAR(judged(0.9 - 3.01 * 0.013844).errors(), 3.01, 1e-3);
}

TEST(Verdict, WithoutSpreadOnlyTheSameMeanIsReproduced) {
    Point p;
    p.ours = imka::Summary{.mean = 0.5, .n = 1};
    p.published = letter_accuracy(0.5, 0.0);
    EXPECT_EQ(p.errors(), 0.0);
    p.ours.mean = 0.4;
    EXPECT_EQ(p.errors(), -INFINITY);
}

TEST(Verdict, NeedsTheSameSizeInTheMeasuredProtocol) {
    const auto figures = make_figures(measured_cell(32), {letter_accuracy(0.9, 0.01)});
    EXPECT_EQ(figure_of(figures, Quantity::accuracy).curves.at(0).points.at(0).verdict, Verdict::unpublished);
}

TEST(Verdict, IsNotGivenAcrossProtocolsOrSettings) {
    auto records = measured_cell(31);
    for (auto& r : records) r.config["protocol"] = "default";
    auto figures = make_figures(records, {letter_accuracy(0.9, 0.01)});
    const auto other_protocol = figure_of(figures, Quantity::accuracy).curves.at(0).points.at(0);
    EXPECT_EQ(other_protocol.verdict, Verdict::unlike);
    EXPECT_THAT(other_protocol.unlike, HasSubstr("26 classes instead of A–M against N–Z"));
    records = measured_cell(31);
    for (auto& r : records) r.config["alpha"] = "0.25";
    figures = make_figures(records, {letter_accuracy(0.9, 0.01)});
    const auto other_alpha = figure_of(figures, Quantity::accuracy).curves.at(0).points.at(0);
    EXPECT_EQ(other_alpha.verdict, Verdict::unlike);
    EXPECT_THAT(other_alpha.unlike, HasSubstr("alpha is 0.25; the published runs had 0.5"));
}

TEST(Verdict, ComparesAChipWithThePublishedChip) {
    auto records = measured_cell(31);
    auto on_chip = measured_cell(31);
    for (auto& r : on_chip) r.config["backend"] = "hermes";
    std::ranges::move(on_chip, std::back_inserter(records));
    auto chip_value = letter_accuracy(0.7, 0.01);
    chip_value.backend = "hermes";
    const auto figures = make_figures(records, {letter_accuracy(0.9, 0.01), chip_value});
    const auto& curves = figure_of(figures, Quantity::accuracy).curves;
    ASSERT_EQ(curves.size(), 2U);
    EXPECT_EQ(curves[0].label(), "orf");
    EXPECT_EQ(curves[0].points.at(0).verdict, Verdict::reproduced);
    EXPECT_EQ(curves[1].label(), "orf, hermes");
    EXPECT_EQ(curves[1].points.at(0).published->value.mean, 0.7);
    EXPECT_EQ(curves[1].points.at(0).verdict, Verdict::deviates);
}

TEST(Verdict, IsNotGivenToAnotherChip) {
    auto records = measured_cell(31);
    for (auto& r : records) r.config["backend"] = "mine.yaml";
    auto chip_value = letter_accuracy(0.9, 0.01);
    chip_value.backend = "hermes";
    const auto figures = make_figures(records, {letter_accuracy(0.9, 0.01), chip_value});
    const auto& p = figure_of(figures, Quantity::accuracy).curves.at(0).points.at(0);
    EXPECT_EQ(p.published->backend, "hermes");
    EXPECT_EQ(p.verdict, Verdict::unlike);
    EXPECT_THAT(p.unlike, HasSubstr("different chip: mine.yaml"));
}

TEST(Verdict, KnowsTheSettingsOfThePublishedChipRuns) {
    // Published: eeg, rbf, orf, r = 1, m = 27, with inputs clipped at two standard deviations.
    const auto judged = [](const std::string& input_alpha, const std::string& fit_on = "fp32") {
        auto r =
            make_record({.dataset = "eeg", .protocol = "measured", .backend = "hermes", .m = 27, .seed = 1});
        r.config["input_alpha"] = input_alpha;
        r.config["fit_on"] = fit_on;
        const auto figures = make_figures({r}, published_values());
        return figure_of(figures, Quantity::accuracy).curves.at(0).points.at(0);
    };
    EXPECT_EQ(judged("2").unlike, "");
    EXPECT_THAT(judged("3").unlike, HasSubstr("input_alpha is 3; the published runs had 2"));
    EXPECT_THAT(judged("2", "chip").unlike, HasSubstr("fit_on is chip; the published runs had fp32"));
}

TEST(Figures, SeparateChipsThatChanged) {
    auto records = measured_cell(31);
    for (auto& r : records) {
        r.config["backend"] = "hermes";
        r.config["chip_hash"] = r.seed < 2 ? "0123456789abcdef" : "fedcba9876543210";
    }
    const auto curves = make_figures(records, {}).at(0).curves;
    ASSERT_EQ(curves.size(), 2U);
    EXPECT_EQ(curves[0].label(), "orf, hermes, chip_hash 01234567");
}

TEST(Figures, ChipSettingsAreNotVariantsOfFp32) {
    auto records = measured_cell(31);
    auto on_chip = measured_cell(31);
    for (auto& r : on_chip) {
        r.config["backend"] = "hermes";
        r.config["input_alpha"] = "2";
    }
    std::ranges::move(on_chip, std::back_inserter(records));
    const auto figures = make_figures(records, {});
    ASSERT_FALSE(figures.empty());
    for (const auto& curve : figures[0].curves) EXPECT_EQ(curve.variant, "");
}

TEST(Verdict, CountsWhatIsMissing) {
    auto records = measured_cell(31);
    for (auto& r : records) r.experiment = "ridge_measured";
    const auto figures = make_figures(records, published_values());
    Counts counts;
    for (const auto& f : figures) counts.add(count(f));
    const auto absent = absent_figures(figures, published_values());
    for (const auto& a : absent) counts.missing += a.values;
    // 360 published values; one point of each of two figures was run.
    EXPECT_EQ(counts.missing, 358U);
    EXPECT_EQ(counts.reproduced + counts.deviates, 2U);
    EXPECT_EQ(counts.cells(), 360U);
    EXPECT_EQ(absent.size(), 11U) << "all except letter, rbf";
}

TEST(Verdict, TheShareIsOfTheCellsThatCouldBeReproduced) {
    EXPECT_EQ(Counts{}.share(), 0.0);
    Counts counts;
    counts.reproduced = 6;
    counts.deviates = 1;
    counts.missing = 1;
    counts.unlike = 5;
    counts.unpublished = 7;
    EXPECT_EQ(counts.cells(), 8U);
    EXPECT_EQ(counts.share(), 0.75);
}

TEST(Published, TablesAreComplete) {
    const auto& all = published_values();
    EXPECT_EQ(std::ranges::count(all, "ridge", &Published::table), 360 + 240);
    EXPECT_EQ(std::ranges::count(all, "hermes", &Published::backend), 240);
    EXPECT_EQ(std::ranges::count(all, "liu", &Published::table), 90);
    for (const auto& p : all) {
        EXPECT_EQ(p.value.n, 10U);
        EXPECT_GT(p.value.mean, 0.0);
        EXPECT_GE(p.value.std, 0.0);
        EXPECT_LT(p.value.mean, 2.0);
    }
}

TEST(Published, RejectsMalformedTables) {
    const std::string head = "dataset,kernel,sampler,backend,log_ratio,m,metric,mean,std,n\n";
    EXPECT_EQ(parse_published(head + "a,rbf,orf,fp32,1,2,accuracy,0.5,0.1,3\n", "t").size(), 1U);
    EXPECT_THAT(error_of([&] { parse_published("a,b\n", "t"); }), HasSubstr("t: line 1: the header must be"));
    EXPECT_THAT(error_of([&] { parse_published(head + "a,rbf,orf\n", "t"); }),
                HasSubstr("t: line 2: expected 10 fields, got 3"));
    EXPECT_THAT(error_of([&] { parse_published(head + "a,rbf,orf,fp32,1,2,accuracy,x,0.1,3\n", "t"); }),
                HasSubstr("'x' is not a number"));
}

TEST(Verdict, CountsWhatIsMissingOfTheBackendsOfAnExperiment) {
    const auto missing = [](const std::string& experiment) {
        auto records = measured_cell(31);
        for (auto& r : records) {
            r.experiment = experiment;
            r.config["backend"] = "hermes";
        }
        const auto figures = make_figures(records, published_values());
        Counts counts;
        for (const auto& f : figures) counts.add(count(f));
        for (const auto& a : absent_figures(figures, published_values())) counts.missing += a.values;
        return counts.missing;
    };
    EXPECT_EQ(missing("ridge"), 598U);
    EXPECT_EQ(missing("fidelity"), 238U);
    EXPECT_EQ(missing("ridge_measured"), 360U) << "chip runs do not count as FP32 runs";
}

TEST(Commands, RepeatWhatWasRun) {
    const auto record =
        make_record({.dataset = "my file's.csv", .protocol = "measured", .sampler = "sorf", .seed = 7});
    const auto command = run_command("ridge", record.config, {7});
    EXPECT_EQ(
        command,
        "imka ridge --dataset 'my file'\\''s.csv' --log-ratio 1.000000 --protocol measured --sampler sorf "
        "--seeds 7");
    auto chip = chip_record("hermes", "60", "aa");
    chip.config["compensation"] = "none";
    EXPECT_THAT(run_command("ridge", chip.config, {0}),
                HasSubstr("--backend hermes --chip-hash aa --dataset letter --log-ratio 1.000000 "
                          "--read-seconds 60 --seeds 0"));
    EXPECT_EQ(seeds_text({0, 1, 2, 5, 9, 10}), "0..2,5,9..10");
}

TEST(Commands, UseTheVerbOfTheKind) {
    auto features = make_record({}).config;
    features["task"] = "regression";
    EXPECT_EQ(run_command("ridge", features, {0}),
              "imka ridge --dataset letter --log-ratio 1.000000 --task regression --seeds 0");
    features["alpha"] = "2";  // imka gram refuses it
    EXPECT_EQ(run_command("gram", features, {0}),
              "imka gram --dataset letter --log-ratio 1.000000 --task regression --seeds 0");
    const auto attention = imka::settings_text(imka::attention_defaults());
    EXPECT_EQ(run_command("attention", attention, {0}), "imka attention --seeds 0");
    EXPECT_EQ(run_command("attention_time", attention, {0}), "imka attention --seeds 0");
    EXPECT_EQ(run_command("of the future", make_record({}).config, {0}),
              "imka ridge --dataset letter --log-ratio 1.000000 --seeds 0");
}

TEST(Commands, TestAPerformerByItsFile) {
    auto config = imka::performer_defaults();
    config.performer->source.checkpoint = "TASK new.safetensors";
    config.performer->mode = imka::EvalMode::all;
    config.performer->saved_omega = true;
    config.chip.projection.read_seconds = 60.0;
    EXPECT_EQ(run_command("performer", imka::settings_text(config), {0, 1}),
              "imka eval --checkpoint 'models/cifar10 new.safetensors' --saved-omega --at 60 --mode all "
              "--seeds 0..1");
}

}  // namespace

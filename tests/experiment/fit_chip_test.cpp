// Fitting chip constants to results recovers the constants that generated them.
#include "imka/experiment/fit_chip.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "imka/base/file.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/experiment/kinds.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader = "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value\n";

Experiment experiment(const std::string& seeds) {
    return parse_experiment(
        "name: e\nbase: {dataset: ringnorm, backend: hermes, gamma: 0.05, gram_rows: 120}\n"
        "grid:\n  kernel: [rbf, arccos0]\n  sampler: [orf, sorf]\n  log_ratio: [1, 2]\n  seeds: " +
            seeds + "\n",
        "e.yaml");
}

// Simulated measurements of a chip with known constants.
void write_measured(const std::filesystem::path& path, const std::string& chip_set) {
    std::ofstream out(path);
    out << kHeader;
    for (const auto& point : expand(experiment("50..57"))) {
        auto config = point.config;
        config.chip.chip_set = chip_set;
        const auto data = load_dataset(config.dataset, load_options(config, {}), {});
        const auto result = run_seeds("ridge", config, data, {});
        for (std::size_t i = 0; i < config.seeds.size(); ++i) {
            const auto row = [&](const char* metric, double value) {
                out << fmt::format("ringnorm,{},{},{},0,{},{},hermes,{},{}\n",
                                   to_string(config.features.kernel), to_string(config.features.sampler),
                                   *config.features.log_ratio, 20.0 * std::exp2(*config.features.log_ratio),
                                   config.seeds[i], metric, value);
            };
            row("acc", result.values.at("accuracy").values[i]);
            row("err", result.values.at("gram_error").values[i]);
        }
    }
}

ComparisonConfig comparison(const std::filesystem::path& measured) {
    return {.experiment = experiment("0..7"), .measured = measured, .data_dir = {}, .test_rows = 1000};
}

TEST(FitChip, RecoversTheConstantOfTheResults) {
    const TempDir dir;
    write_measured(dir / "m.csv", "core.output_headroom=2.5");
    const ChipComparison runs(comparison(dir / "m.csv"), {});
    EXPECT_EQ(runs.runs(), 64U);
    const auto fit =
        fit_chip(runs, chip_preset("hermes"),
                 {.free = {{.name = "core.output_headroom", .low = 0.3, .high = 6.0, .step = 0.3}},
                  .iterations = 6,
                  .leave_out = false},
                 {});
    ASSERT_EQ(fit.values.size(), 1U);
    EXPECT_NEAR(fit.values[0], 2.5, 4.0 * fit.errors[0]);
    EXPECT_LT(fit.errors[0], 0.5) << "otherwise the check above is meaningless";
    const auto start = runs.emulate(chip_preset("hermes"), {});
    const auto rms = [](const std::vector<FidelityCell>& cells) { return scores(cells).at(0).rms; };
    EXPECT_LT(scores(fit.cells).at(2).rms, scores(start).at(2).rms)
        << "arccos0 depends on the rounding of results";
    EXPECT_GT(rms(fit.cells), 0.0);
}

TEST(FitChip, EmulatesTheSameBitsOnAnyNumberOfThreads) {
    const TempDir dir;
    write_measured(dir / "m.csv", "");
    const ChipComparison runs(comparison(dir / "m.csv"), {.threads = 1});
    const auto one = runs.emulate(chip_preset("hermes"), {.threads = 1});
    const auto three = runs.emulate(chip_preset("hermes"), {.threads = 3});
    ASSERT_EQ(one.size(), 8U);
    for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(one[i].error.values, three[i].error.values);
        EXPECT_EQ(one[i].accuracy->values, three[i].accuracy->values);
    }
}

// A fit and samples of the posterior keep their emulations in a file, which a later process reuses.
TEST(FitChip, KeepsEmulationsAndSamplesThePosterior) {
    const TempDir dir;
    write_measured(dir / "m.csv", "core.output_headroom=2.5");
    auto config = comparison(dir / "m.csv");
    config.kept = dir / "kept.jsonl";
    const std::vector<FreeConstant> free = {
        {.name = "core.output_headroom", .low = 0.3, .high = 6.0, .step = 0.3}};
    const auto chip = chip_preset("hermes");
    const auto fit_with = [&](const ChipComparison& runs) {
        return fit_chip(runs, chip, {.free = free, .iterations = 3, .leave_out = false}, {});
    };
    const ChipComparison runs(config, {});
    const auto fit = fit_with(runs);
    const auto posterior = sample_posterior(runs, chip, free, fit, {.draws = 12}, {});
    ASSERT_EQ(posterior.draws.size(), 12U);
    double mean = 0.0;
    for (const auto& draw : posterior.draws) mean += draw[0] / 12.0;
    EXPECT_NEAR(mean, 2.5, 4.0 * fit.errors[0]);
    EXPECT_GT(posterior.accepted, 0.0);
    EXPECT_EQ(posterior.cells.size(), 8U);
    EXPECT_GE(posterior.coverage(kModelError), 0.7) << "the results come from a chip of this model";
    EXPECT_GE(posterior.coverage(kModelError), posterior.coverage(0.0));

    // A later process reads the emulations and adds none.
    const ChipComparison again(config, {});
    const auto size = std::filesystem::file_size(config.kept);
    EXPECT_EQ(fit_with(again).values, fit.values);
    EXPECT_EQ(sample_posterior(again, chip, free, fit, {.draws = 12}, {}).draws, posterior.draws);
    EXPECT_EQ(std::filesystem::file_size(config.kept), size);

    auto other = config;
    other.test_rows = 500;
    EXPECT_THAT(error_of([&] { ChipComparison(other, {}); }),
                HasSubstr("contains no emulations of these runs"));
    const auto text = read_file(config.kept, 1 << 24);
    write_file_atomic(config.kept, text.substr(0, text.size() - 5));
    EXPECT_THAT(error_of([&] { ChipComparison(config, {}); }), HasSubstr("cut short"));
}

TEST(FitChip, DrawsOfThePosteriorSpreadTheResults) {
    auto config = expand(experiment("0..1")).front().config;
    const auto data = load_dataset(config.dataset, load_options(config, {}), {});
    const TempDir dir;
    config.backend.name = (dir / "c.yaml").string();
    std::ofstream(dir / "c.yaml") << "extends: hermes\nname: c\ndescription: c\nposterior:\n"
                                     "  core.adc_noise: [1, 30, 1]\n  core.product_limit: [2, 3, 2]\n";
    const auto two = run_draws("gram", config, data, 2, {});
    EXPECT_EQ(two.draws, 2);
    auto first = config;
    first.chip.chip_draw = 0;
    auto second = config;
    second.chip.chip_draw = 1;
    const double a = run_seeds("gram", first, data, {}).values.at("gram_error").mean;
    const double b = run_seeds("gram", second, data, {}).values.at("gram_error").mean;
    EXPECT_NE(a, b);
    EXPECT_NEAR(two.deviations.at("gram_error"), std::abs(a - b) / std::sqrt(2.0), 1e-12);
    EXPECT_THAT(error_of([&] { run_draws("gram", config, data, 4, {}); }), HasSubstr("its file has 3"));
    EXPECT_THAT(error_of([&] { run_draws("gram", first, data, 2, {}); }), HasSubstr("chip_draw"));
}

TEST(FitChip, AFittedChipKeepsTheDrawsOfItsConstants) {
    const std::vector<FreeConstant> free = {{.name = "core.adc_noise"}, {.name = "core.output_headroom"}};
    const FittedChip fit{.values = {1.5, 2.5}};
    const auto drawn =
        measured_chip(chip_preset("hermes"), free, fit, Posterior{.draws = {{1.0, 2.0}, {3.0, 4.0}}});
    EXPECT_EQ(drawn.core.adc.noise_counts, 1.5);
    ASSERT_EQ(drawn.posterior.size(), 2U);
    EXPECT_EQ(drawn.posterior.at("core.output_headroom"), (std::vector<double>{2.0, 4.0}));
    EXPECT_TRUE(measured_chip(drawn, free, fit, std::nullopt).posterior.empty())
        << "draws of an earlier fit say nothing about this one";
}

TEST(FitChip, ScoresMatchTheDefinition) {
    const auto summary = [](double a, double b) { return summarize({a, b}); };
    std::vector<FidelityCell> cells(2);
    for (auto& c : cells) {
        c.dataset = "a";
        c.kernel = "rbf";
        c.error_measured = summary(0.1, 0.1);
        c.accuracy_measured = summary(0.9, 0.9);
        c.accuracy = summary(0.9, 0.9);
    }
    cells[0].error = summary(0.1 * std::exp(0.3), 0.1 * std::exp(0.3));
    cells[1].error = summary(0.1 * std::exp(-0.1), 0.1 * std::exp(-0.1));
    cells[1].accuracy = summary(0.894, 0.894);
    const auto s = scores(cells).at(0);
    EXPECT_NEAR(s.rms, std::sqrt((0.09 + 0.01) / 2.0), 1e-12);
    EXPECT_NEAR(s.bias, 0.1, 1e-12);
    EXPECT_EQ(s.noise, 0.0);
    EXPECT_EQ(s.accuracy_agrees, 1U) << "0.6 points without spread are a miss";
}

TEST(FitChip, BadInputIsAClearError) {
    const TempDir dir;
    std::ofstream(dir / "m.csv") << kHeader << "ringnorm,rbf,orf,1,0,0,0,fp32,acc,0.9\n";
    EXPECT_THAT(error_of([&] { ChipComparison(comparison(dir / "m.csv"), {}); }),
                HasSubstr("no rows of the backend 'hermes'"));
    std::ofstream(dir / "m.csv") << kHeader << "ringnorm,rbf,orf,1\n";
    EXPECT_THAT(error_of([&] { ChipComparison(comparison(dir / "m.csv"), {}); }),
                HasSubstr("line 2: expected 10 fields, got 4"));
    write_measured(dir / "m.csv", "");
    const ChipComparison runs(comparison(dir / "m.csv"), {});
    const auto fails = [&](const FreeConstant& free) {
        return error_of([&] { fit_chip(runs, chip_preset("hermes"), {.free = {free}}, {}); });
    };
    EXPECT_THAT(fails({.name = "core.adc_nois", .low = 0, .high = 1, .step = 1}), HasSubstr("core.adc_nois"));
    EXPECT_THAT(fails({.name = "core.adc_noise", .low = 1, .high = 1, .step = 1}), HasSubstr("low < high"));
}

}  // namespace
}  // namespace imka

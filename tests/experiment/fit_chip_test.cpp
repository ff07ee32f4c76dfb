// Fitting chip constants to results recovers the constants that generated them.
#include "imka/experiment/fit_chip.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "imka/chip/spec/chip_fields.hpp"
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

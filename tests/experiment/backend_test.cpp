// Runs on an emulated chip: keys, bits, and fit_on.
#include "imka/experiment/backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "imka/base/file.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/experiment/sweep.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"
#include "support/thread_team.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Dataset small_ringnorm() {
    return load_dataset("ringnorm", {.train_rows = 1000, .test_rows = 600}, Exec{});
}

RunConfig chip_config(const std::string& backend) {
    RunConfig config;
    config.features.log_ratio = 3.0;
    config.gram_rows = 200;
    config.backend.name = backend;
    return config;
}

std::string small_chip(const std::string& noise) {
    return "name: mine\ndescription: a chip for this test\ncore:\n  adc_noise: {value: " + noise +
           ", unit: counts}\n";
}

// SHA-256 of {"log_ratio":"2","seeds":"0,1"}, and of the four settings changed below.
TEST(ChipRun, KeepsTheHashesOfOtherRuns) {
    RunConfig ridge;
    ridge.features.log_ratio = 2.0;
    ridge.seeds = {0, 1};
    EXPECT_EQ(config_hash(ridge), "b09f2f08b81824be815f0ea9760c56169dcbf110077bb06a991576f5848dc4c5");
    RunConfig gram;
    gram.dataset = "waveform";
    gram.features.kernel = Kernel::arccos1;
    gram.protocol = Protocol::measured;
    gram.seeds = {3};
    EXPECT_EQ(config_hash(gram), "da6805f0c36c004afa43498e9d3e3a3a82a44bd21ec4dfe58c68a95b6356a167");
    ridge.chip.projection.read_seconds = 7.0;
    EXPECT_EQ(config_hash(ridge), "b09f2f08b81824be815f0ea9760c56169dcbf110077bb06a991576f5848dc4c5")
        << "chip settings must not matter without a chip";
    EXPECT_FALSE(settings_text(ridge).contains("read_seconds"));
}

TEST(ChipRun, HashChangesWithEverySetting) {
    const auto base = chip_config("hermes");
    std::set<std::string> hashes = {config_hash(base)};
    for (const auto& [name, text] : {std::pair{"backend", "hermes-od"},
                                     {"chip_seed", "4"},
                                     {"chip_set", "core.adc_noise=2"},
                                     {"input_range", "quantile"},
                                     {"input_alpha", "2"},
                                     {"calibration_inputs", "100"},
                                     {"programming", "verify"},
                                     {"output_calibration", "nominal"},
                                     {"output_calibration", "centred"},
                                     {"read_seconds", "60"},
                                     {"read_spacing", "1"},
                                     {"compensation", "global"},
                                     {"replicas", "2"},
                                     {"replication", "average"},
                                     {"fit_on", "chip"},
                                     {"fit_draws", "2"}}) {
        auto changed = base;
        set_field(fields(changed), name, text);
        EXPECT_TRUE(hashes.insert(config_hash(changed)).second) << name;
    }
}

TEST(ChipRun, AChangedChipFileIsAnotherRun) {
    const TempDir dir;
    const auto file = dir / "mine.yaml";
    write_file_atomic(file, small_chip("0.1"));
    const auto config = chip_config(file.string());
    const auto before = settings_text(config);
    write_file_atomic(file, small_chip("0.2"));
    const auto after = settings_text(config);
    EXPECT_NE(before.at("chip_hash"), after.at("chip_hash"));
    EXPECT_NE(run_key("ridge", before, "x"), run_key("ridge", after, "x"));
    // The settings of a record contain the chip's hash, so a change is detected.
    RunConfig again;
    for (const auto& [name, text] : before) set_field(fields(again), name, text);
    EXPECT_THAT(error_of([&] { validate(again); }), HasSubstr("its constants have changed"));
    write_file_atomic(file, small_chip("0.1") + "# and a remark\n");
    EXPECT_EQ(error_of([&] { validate(again); }), "no error");
    EXPECT_EQ(settings_text(again), before);
}

TEST(ChipRun, UnknownNamesAreErrors) {
    const auto error = [](const std::string& name) { return error_of([&] { validate(chip_config(name)); }); };
    EXPECT_THAT(error("herms"), HasSubstr("bad_config: 'herms' is not a known backend; known: fp32, ideal"));
    EXPECT_THAT(error("herms"), HasSubstr("nearest: hermes"));
    EXPECT_THAT(error("none.yaml"), HasSubstr("none.yaml"));
    auto config = chip_config("hermes");
    config.chip.chip_set = "core.adc_nois=1";
    EXPECT_THAT(error_of([&] { validate(config); }), HasSubstr("chip_set: 'core.adc_nois'"));
}

TEST(ChipRun, IsTheSameForAnyThreads) {
    const auto data = small_ringnorm();
    auto config = chip_config("hermes");
    config.seeds = {0, 1};
    for (const auto fit : {FitOn::fp32, FitOn::chip, FitOn::chips}) {
        config.chip.fit_on = fit;
        const auto one = run_seeds("ridge", config, data, Exec{.threads = 1});
        const auto many = run_seeds("ridge", config, data, Exec{.threads = 7});
        EXPECT_EQ(one.values.at("accuracy").values, many.values.at("accuracy").values);
        EXPECT_EQ(one.values.at("gram_error").values, many.values.at("gram_error").values);
        EXPECT_EQ(one.values.at("gram_error").values,
                  run_seeds("gram", config, data, Exec{}).values.at("gram_error").values);
        EXPECT_NE(one.values.at("gram_error").values[0], one.values.at("gram_error").values[1]);
        EXPECT_GT(one.values.at("accuracy").mean, 0.9);
    }
}

TEST(ChipRun, IsTheSameForAnyTeam) {
    const auto data = small_ringnorm();
    auto config = chip_config("hermes");
    config.chip.fit_on = FitOn::chip;
    const auto alone = run_seeds("ridge", config, data, Exec{});
    run_team(3, [&](const Team& team) {
        const auto shared = run_seeds("ridge", config, data, Exec{.threads = 1, .team = &team});
        EXPECT_EQ(shared.values.at("accuracy").values, alone.values.at("accuracy").values);
        EXPECT_EQ(shared.values.at("gram_error").values, alone.values.at("gram_error").values);
    });
}

TEST(ChipRun, OfAPerfectChipIsNearlyExact) {
    const auto data = small_ringnorm();
    auto exact = chip_config("fp32");
    exact.features.truncation = 3.0;
    const auto digital = run_seeds("ridge", exact, data, Exec{});
    const auto chip = run_seeds("ridge", chip_config("ideal"), data, Exec{});
    EXPECT_NEAR(chip.values.at("accuracy").mean, digital.values.at("accuracy").mean, 0.005);
    EXPECT_NEAR(chip.values.at("gram_error").mean, digital.values.at("gram_error").mean, 0.01);
    EXPECT_NE(chip.values.at("gram_error").mean, digital.values.at("gram_error").mean)
        << "inputs are rounded";
    EXPECT_FALSE(digital.chip);
    EXPECT_EQ(chip.chip->state, ChipState::programmed);
}

TEST(ChipRun, FitsOnTheRequestedFeatures) {
    const auto data = small_ringnorm();
    auto config = chip_config("hermes-od");
    config.chip.chip_set = "device.programming_scale=4";
    const auto weights = [&](FitOn fit) {
        config.chip.fit_on = fit;
        const auto on_chip = run_map(config, data, 0, Exec{});
        return fit_run(config, data, 0, &on_chip.map, Exec{}).weights.w;
    };
    auto digital = config;
    digital.backend.name = "fp32";
    digital.features.truncation = 3.0;
    EXPECT_EQ(weights(FitOn::fp32), fit_run(digital, data, 0, nullptr, Exec{}).weights.w);
    EXPECT_NE(weights(FitOn::chip), weights(FitOn::fp32));
    EXPECT_NE(weights(FitOn::chips), weights(FitOn::chip));

    // With programming errors this large, a fit on the chip helps by more than 5 % of the test rows.
    const auto accuracy = [&](FitOn fit) {
        config.chip.fit_on = fit;
        config.seeds = {0, 1, 2};
        return run_seeds("ridge", config, data, Exec{}).values.at("accuracy").mean;
    };
    EXPECT_GT(accuracy(FitOn::chip), accuracy(FitOn::fp32));
}

// Rounding down gives the wrong sign for products between 0 and one step; ArcCos0 uses only the sign.
TEST(ChipRun, CentredOutputsLowerTheErrorOfArcCos0) {
    const auto data = small_ringnorm();
    auto config = chip_config("hermes");
    config.features.kernel = Kernel::arccos0;
    config.features.log_ratio = 5.0;
    config.seeds = {0, 1, 2};
    const auto error = [&](OutputCalibration how) {
        config.chip.projection.output_calibration = how;
        return run_seeds("gram", config, data, Exec{}).values.at("gram_error").mean;
    };
    EXPECT_LT(error(OutputCalibration::centred), 0.95 * error(OutputCalibration::least_squares));
}

TEST(ChipRun, TruncatesGaussianDirections) {
    auto config = chip_config("hermes");
    EXPECT_EQ(resolve_truncation(config.features, feature_use(config)), 3.0);
    config.features.truncation = 0.0;
    EXPECT_EQ(resolve_truncation(config.features, feature_use(config)), 0.0);
    config.features.truncation.reset();
    config.features.kernel = Kernel::laplace;
    EXPECT_EQ(resolve_truncation(config.features, feature_use(config)), 0.0)
        << "truncated tails would change the kernel";
    config = chip_config("fp32");
    EXPECT_EQ(resolve_truncation(config.features, feature_use(config)), 0.0);
}

TEST(ChipRun, JsonDescribesTheChip) {
    const auto data = small_ringnorm();
    auto config = chip_config("hermes");
    config.chip.projection.read_seconds = 60.0;
    const auto j = nlohmann::json::parse(to_json(config, run_seeds("gram", config, data, Exec{})));
    EXPECT_EQ(j.at("backend"), "hermes");
    EXPECT_EQ(j.at("chip").at("hash"), chip_hash(chip_preset("hermes")));
    EXPECT_EQ(j.at("chip").at("state"), "aged");
    EXPECT_EQ(j.at("chip").at("seconds"), 60.0);
    EXPECT_EQ(j.at("chip").at("cores"), 1);
}

TEST(ChipSweep, HasBackendsInTheGridAndMergesIdenticalRuns) {
    const TempDir dir;
    const auto e = parse_experiment(
        "name: a\nbase: {dataset: ringnorm, log_ratio: 1, gram_rows: 50, calibration_inputs: 100}\n"
        "grid: {backend: [fp32, hermes], read_seconds: [0, 3600]}\n",
        "a.yaml");
    const auto plan = plan_sweep(e, {}, Exec{});
    ASSERT_EQ(plan.runs.size(), 3U) << "fp32 does not age";
    run_sweep(plan, {.output = dir.path()}, Exec{});
    std::set<std::string> backends;
    for (const auto& r : read_records(dir.path()).records) {
        EXPECT_TRUE(r.ok()) << r.error;
        backends.insert(r.setting("backend") + r.setting("read_seconds"));
        RunConfig config;
        for (const auto& [name, text] : r.config) set_field(fields(config), name, text);
        const auto data = load_dataset(config.dataset, load_options(config, {}), Exec{});
        const auto result = run_seeds("ridge", config, data, Exec{});
        EXPECT_EQ(r.results.at("accuracy"), result.values.at("accuracy").mean);
        EXPECT_EQ(r.results.at("gram_error"), result.values.at("gram_error").mean);
    }
    EXPECT_EQ(backends, (std::set<std::string>{"fp32", "hermes0", "hermes3600"}));
    EXPECT_EQ(run_sweep(plan, {.output = dir.path()}, Exec{}).recorded, 0U);
}

TEST(ChipSweep, RecordsContainTheOutputCalibration) {
    const TempDir dir;
    const auto e = parse_experiment(
        "name: a\nbase: {dataset: ringnorm, log_ratio: 1, gram_rows: 50, calibration_inputs: 100, backend: "
        "hermes}\n"
        "grid: {output_calibration: [least_squares, centred]}\n",
        "a.yaml");
    run_sweep(plan_sweep(e, {}, Exec{}), {.output = dir.path()}, Exec{});
    std::map<std::string, double> errors;
    for (const auto& r : read_records(dir.path()).records) {
        ASSERT_TRUE(r.ok()) << r.error;
        errors[r.setting("output_calibration")] = r.results.at("gram_error");
    }
    ASSERT_EQ(errors.size(), 2U);
    EXPECT_NE(errors.at("centred"), errors.at("least_squares"));
}

TEST(ChipSweep, AChipThatChangesAfterThePlanFailsItsRuns) {
    const TempDir dir;
    const auto file = dir / "mine.yaml";
    write_file_atomic(file, small_chip("0.1"));
    const auto e = parse_experiment("name: a\nbase: {log_ratio: 1, gram_rows: 0, backend: " + file.string() +
                                        "}\ngrid: {kernel: [rbf]}\n",
                                    "a.yaml");
    const auto plan = plan_sweep(e, {}, Exec{});
    write_file_atomic(file, small_chip("0.2"));
    const auto summary = run_sweep(plan, {.output = dir / "out"}, Exec{});
    ASSERT_EQ(summary.failures.size(), 1U);
    EXPECT_THAT(summary.failures[0].error, HasSubstr("its constants have changed"));
}

TEST(ChipCost, ExceedsExactRunsAndGrowsWithChips) {
    const auto facts = dataset_facts("ringnorm", {}, Exec{});
    const auto seconds = [&](const std::string& backend, const std::string& fit) {
        auto config = chip_config(backend);
        set_field(fields(config), "fit_on", fit);
        return ridge_cost(config, facts).seconds;
    };
    EXPECT_GT(seconds("hermes", "fp32"), seconds("fp32", "fp32"));
    EXPECT_GT(seconds("hermes", "chip"), seconds("hermes", "fp32"));
    EXPECT_GT(seconds("hermes", "chips"), seconds("hermes", "chip"));
    EXPECT_EQ(seconds("fp32", "chips"), seconds("fp32", "fp32"));
}

}  // namespace
}  // namespace imka

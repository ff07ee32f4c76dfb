// Analyses of whole chips: errors by state, time, cause and programming method.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "imka/chip/analyse/attribution.hpp"
#include "imka/chip/analyse/compare.hpp"
#include "imka/chip/analyse/cost.hpp"
#include "imka/chip/device/fit_device.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ChipTrials small_trials(const char* chip = "hermes") {
    return {.source = make_problem_source({.rows = 24, .cols = 10, .count = 100, .calibration_count = 200}),
            .build = {.settings = {.spec = chip_preset(chip), .calibration = {.inputs = 200}}},
            .seeds = {0, 1}};
}

std::vector<std::string> names_of(const std::vector<MeasuredState>& states) {
    std::vector<std::string> names;
    for (const auto& s : states) names.push_back(s.name);
    return names;
}

double mean_error(const MeasuredState& state) {
    double sum = 0.0;
    for (const auto& m : state.values) sum += m.parts.total;
    return sum / static_cast<double>(state.values.size());
}

TEST(Measure, AgreesWithTheErrorsOfProducts) {
    const auto trials = small_trials();
    const auto problem = with_exact_products(draw_problem(trials.source, 3));
    const auto chip = trial_chip(trials, problem, {});
    const auto m = measure(chip, problem, Simulator::fast, {});
    FastEmulator driver(chip);
    const auto [y, trace] =
        execute(driver, 0, problem.inputs.view(), {.seed = product_seed(problem.seed)}, {});
    const double relative = std::pow(10.0, -signal_to_noise_db(y.view(), problem.exact.view()) / 20.0);
    EXPECT_GT(relative, 0.01);
    EXPECT_NEAR(m.parts.total, relative, 1e-9);
    EXPECT_NEAR(measure_error(chip, problem, {}), relative, 1e-9);
    EXPECT_EQ(m.saturated, static_cast<double>(trace.saturated) / static_cast<double>(trace.conversions));
    EXPECT_EQ(m.clipped, static_cast<double>(trace.clipped_inputs) / static_cast<double>(trace.inputs));
}

TEST(States, AreMeasuredInTheOrderOfTheChip) {
    const auto states = measure_states(small_trials(),
                                       {.read = {.time = {.seconds = 30 * 86400.0, .spacing_seconds = 1e-3},
                                                 .compensation = AgeCompensation::global}},
                                       {});
    ASSERT_THAT(names_of(states), ElementsAre("ideal", "mapped", "calibrated", "programmed", "programmed+",
                                              "aged", "compensated"));
    for (const auto& s : states) EXPECT_EQ(s.values.size(), 2U);
    EXPECT_LT(mean_error(states[0]), 1e-6);
    // Gaussian inputs with range 1: 31.7 % are beyond one standard deviation and clipped; calibration
    // fixes that.
    EXPECT_NEAR(states[1].values[0].clipped, 0.317, 0.03);
    EXPECT_LT(states[2].values[0].clipped, 0.001);
    EXPECT_LT(mean_error(states[2]), mean_error(states[1]));
    EXPECT_LT(mean_error(states[2]), mean_error(states[3]));
    EXPECT_GT(mean_error(states[5]), mean_error(states[4]));
    EXPECT_LT(mean_error(states[6]), mean_error(states[5]));
}

TEST(States, OmitsStatesThatWereNotRequested) {
    auto trials = small_trials();
    trials.build.output_calibration = false;
    EXPECT_THAT(names_of(measure_states(trials, {}, {})),
                ElementsAre("ideal", "mapped", "calibrated", "programmed"));
    trials.programmed = build_chip(trials.build, draw_problem(trials.source, 0), {});
    const StatesConfig day{.read = {.time = {.seconds = 86400.0, .spacing_seconds = 1e-3}}};
    EXPECT_THAT(names_of(measure_states(trials, day, {})), ElementsAre("programmed", "aged"));
}

TEST(States, NeedAMatrixThatFitsTheChip) {
    auto trials = small_trials();
    trials.source = make_problem_source({.rows = 5000, .cols = 5000});
    EXPECT_THAT(error_of([&] { measure_states(trials, {}, {}); }), HasSubstr("bad_config: "));
}

TEST(Ageing, CompensationsLowerTheErrorOfAnOldChip) {
    const auto trials = small_trials();
    const auto errors = measure_ageing(trials, {.seconds = {3600.0, 30 * 86400.0}}, {});
    ASSERT_EQ(errors.size(), 2U);
    for (std::size_t seed = 0; seed < trials.seeds.size(); ++seed) {
        EXPECT_GT(errors[1][0][seed], errors[0][0][seed]);
        for (std::size_t k = 1; k < kAgeCompensations.size(); ++k)
            EXPECT_LT(errors[1][k][seed], errors[1][0][seed]) << to_string(kAgeCompensations[k]);
    }
    // The same chip, aged in one step.
    const auto problem = with_exact_products(draw_problem(trials.source, 1));
    const auto chip = aged_and_compensated(
        trial_chip(trials, problem, {}),
        {.time = {.seconds = 30 * 86400.0, .spacing_seconds = 1e-3}, .compensation = AgeCompensation::global},
        {});
    EXPECT_EQ(measure_error(chip, problem, {}), errors[1][1][1]);
}

TEST(Attribution, SharesOfIndependentCausesAddUp) {
    const auto settings = small_trials("hermes-published").build.settings;
    // Half of the error is not caused by the chip; the rest is shared equally by the active non-idealities.
    double present = 0.0;
    for (const auto& n : nonidealities()) present += n.present(settings) ? 1.0 : 0.0;
    const auto squared_error = [&](const ChipSettings& s) {
        double sum = 0.5;
        for (const auto& n : nonidealities()) sum += n.present(s) ? 0.5 / present : 0.0;
        return sum;
    };
    const auto found = attribute_error(settings, {measure_cases(settings, squared_error, {.threads = 2})});
    ASSERT_EQ(found.items.size(), static_cast<std::size_t>(present));
    EXPECT_NEAR(found.errors[0].full, 1.0, 1e-12);
    EXPECT_NEAR(found.errors[0].none, 0.5, 1e-12);
    for (const auto& item : found.items) {
        EXPECT_NEAR(item.alone[0], 1.0 / present, 1e-9) << item.item->name;
        EXPECT_NEAR(item.saved[0], 1.0 / present, 1e-9) << item.item->name;
        EXPECT_NEAR(item.alone_error[0], std::sqrt(0.5 / present), 1e-9) << item.item->name;
    }
}

// A chip that happens to add nothing does not make the shares of the others infinite.
TEST(Attribution, SharesReferToTheMeanOverSeeds) {
    const auto settings = ChipSettings{.spec = chip_preset("hermes")};
    const auto squared_error = [&](const ChipSettings& s) {
        return s.spec.device.programming_scale > 0.0 ? 4.0 : 1.0;
    };
    const auto usual = measure_cases(settings, squared_error, {});
    auto lucky = usual;
    lucky.full = lucky.none;
    const auto found = attribute_error(settings, {usual, lucky});
    for (const auto& item : found.items) {
        for (std::size_t seed = 0; seed < 2; ++seed)
            EXPECT_LE(std::abs(item.alone[seed]), 2.0) << item.item->name;
    }
}

TEST(Attribution, NeedsANonideality) {
    const auto settings = small_trials().build.settings;
    EXPECT_THAT(error_of([&] {
                    measure_cases(switched::without_all(settings), [](const ChipSettings&) { return 1.0; },
                                  {});
                }),
                HasSubstr("bad_usage: hermes has no non-ideality"));
}

TEST(Attribution, FullErrorEqualsTheErrorOfTheChip) {
    auto trials = small_trials("hermes-published");
    trials.seeds = {3};
    const AgedRead read{.time = {.seconds = 3600.0, .spacing_seconds = 1e-3},
                        .compensation = AgeCompensation::global};
    const auto found = attribute_product_error(trials, read, {});
    const auto problem = with_exact_products(draw_problem(trials.source, 3));
    const auto chip = aged_and_compensated(trial_chip(trials, problem, {}), read, {});
    EXPECT_EQ(std::sqrt(found.errors[0].full), measure_error(chip, problem, {}));
    EXPECT_LT(std::sqrt(found.errors[0].none), 1e-3);
    const auto it = std::ranges::find_if(
        found.items, [](const Attribution& a) { return a.item->name == "programming_error"; });
    ASSERT_NE(it, found.items.end());
    EXPECT_GT(it->saved[0], 0.3);
}

TEST(CompareProgramming, TriesEveryMethodOnTheSameChips) {
    auto trials = small_trials();
    trials.build.programming.gradient.iterations = 8;
    const auto methods = programming_methods(trials.build.settings.spec);
    ASSERT_THAT(methods, ElementsAre(ProgrammingMethod::statistical, ProgrammingMethod::verify,
                                     ProgrammingMethod::max_set_fill, ProgrammingMethod::gradient_descent));
    const auto [results, chip] = compare_programming(trials, methods, {});
    ASSERT_EQ(results.size(), 4U);
    for (const auto& r : results) {
        ASSERT_EQ(r.draws.size(), 2U);
        EXPECT_GT(r.draws[0].after.product, 0.0) << to_string(r.method);
        EXPECT_EQ(r.draws[0].polarities, 2U * 24 * 10) << to_string(r.method);
    }
    EXPECT_EQ(results[0].draws[0].before.weight, results[0].draws[0].after.weight);
    EXPECT_LT(results[1].draws[0].after.weight, results[1].draws[0].before.weight);
    EXPECT_EQ(state_of(chip), ChipState::programmed);
    EXPECT_EQ(chip.seed, trials.seeds.front());
    const auto gains = gradient_gains(results);
    ASSERT_TRUE(gains);
    EXPECT_EQ((*gains)[1], 1.0 - results[3].draws[1].after.product / results[2].draws[1].after.product);
    EXPECT_GT((*gains)[0], 0.0);
    EXPECT_FALSE(gradient_gains({results[0], results[1]}));
}

TEST(CompareProgramming, WithoutAPulseModelOnlyStatisticalProgrammingWorks) {
    EXPECT_THAT(programming_methods(chip_preset("pcm-like")), ElementsAre(ProgrammingMethod::statistical));
}

TEST(Capacity, CountsTheDevicesOfAWholeChip) {
    auto spec = chip_preset("hermes");
    const auto c = chip_capacity(spec);
    EXPECT_EQ(c.cores, 64U);
    EXPECT_EQ(c.weights, 64U * 256 * 256);
    EXPECT_EQ(c.devices, 4 * c.weights);
    EXPECT_NEAR(c.tops, 2.0 * static_cast<double>(c.weights) / c.product_seconds * 1e-12, 1e-9);
    ASSERT_TRUE(c.tops_per_watt);
    EXPECT_NEAR(*c.tops_per_watt * *c.product_joules * 1e12, 2.0 * 256 * 256, 1e-3);
    spec.chips = 2;
    EXPECT_EQ(chip_capacity(spec).devices, 2 * c.devices);
}

TEST(FittedChip, ReplacesOnlyMeasuredConstants) {
    const auto before = chip_preset("hermes");
    const DeviceFit fit{.g_max_us = 20.0, .reads = 7, .sigma_us = {{.value = 0.3}, {.value = 1.0}}};
    EXPECT_DOUBLE_EQ(fitted_sigma_us(fit, 0.5), 0.8);
    const auto after = with_fit(before, fit, "pairs.csv");
    EXPECT_EQ(after.device.g_max_us, 20.0);
    EXPECT_FALSE(after.pulses);
    EXPECT_EQ(after.device.t_0_seconds, before.device.t_0_seconds) << "no drift was fitted";
    EXPECT_EQ(after.core.adc.counts_per_us, before.core.adc.counts_per_us);
    const auto source = [&](const std::string& key) {
        const auto it = std::ranges::find(after.provenance, key, &Provenance::key);
        return it == after.provenance.end() ? std::string() : it->source;
    };
    EXPECT_THAT(source("device.g_max"), HasSubstr("7 reads of pairs.csv"));
    EXPECT_THAT(source("device.t_0"), testing::Not(HasSubstr("pairs.csv")));
}

}  // namespace
}  // namespace imka

// Switching errors off one by one.
#include "imka/chip/analyse/nonideality.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/base/random.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t first) {
    Matrix<float> m(rows, cols);
    fill_normal(11, Stream::test, first, m.values());
    return m;
}

// Hermes with all its errors, and those that it leaves at 0.
ChipSettings everything(ReadMode mode) {
    ChipSettings s{.spec = chip_preset("hermes"), .calibration = {.inputs = 200}};
    s.calibration.input_range = InputRangeRule::deviation;
    s.calibration.deviations = 2.0;
    s.spec.core.read_mode = mode;
    s.spec.core.polarity_asymmetry = 0.05;
    s.spec.core.adc.negative_gain_sd = 0.03;
    s.spec.core.adc.offset_sd_counts = 1.0;
    s.spec.core.adc.polarity_error_counts = 4.0;
    s.spec.core.dac.jitter_steps = 1.0;
    s.spec.core.adc.output_floor = true;
    s.spec.core.ir_drop.scale = 1.0;
    s.spec.core.affine.limit.deviations = 2.0;
    s.spec.core.ir_drop.wire_ohm = 5.0;
    s.spec.device.stuck_at_reset_probability = 0.02;
    s.spec.device.stuck_at_max_probability = 0.02;
    s.spec.device.zero_threshold_us = 0.3;
    s.spec.device.g_ceiling_us = 6.0;
    // Far below the margin of calibration, so that it saturates too.
    s.spec.core.adc.fill = 1.0;
    return s;
}

Matrix<float> products(const ChipSettings& s, std::size_t rows = 40, std::size_t cols = 12) {
    const auto x = normals(300, rows, 1'000'000);
    auto calibration = s.calibration;
    if (s.whole_range) calibration.inputs = x.rows();
    const auto chip = build_chip(
        BuildJob{
            .chip = s.spec,
            .weights = normals(rows, cols, 0),
            .sample = x.view(),
            .steps = {.calibration = calibration, .output_fit = std::nullopt, .time = {.seconds = 3600.0}},
            .seed = 5},
        {.threads = 1});
    FastEmulator driver(chip, {.threads = 1});
    return execute(driver, 0, x.view(), {.seed = 9}, {.threads = 1}).y;
}

TEST(Nonideality, WithAllOffHermesEqualsIdeal) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        const auto bare = products(switched::without_all(everything(mode)));
        ChipSettings ideal{.spec = chip_preset("ideal"), .calibration = {.inputs = 200}};
        ideal.spec.core.read_mode = mode;
        // g_max and counts_per_us are not errors, only scales of conductances and counts.
        ideal.spec.device.g_max_us = chip_preset("hermes").device.g_max_us;
        ideal.spec.core.adc.counts_per_us = chip_preset("hermes").core.adc.counts_per_us;
        EXPECT_EQ(bare, products(switched::without_all(ideal)));
        EXPECT_NE(bare, products(everything(mode)));
    }
}

TEST(Nonideality, WithAllOffProductsAreTheDigitalOnes) {
    const auto bare = products(switched::without_all(everything(ReadMode::four_phase)));
    const auto x = normals(300, 40, 1'000'000);
    const auto exact = digital_products(normals(40, 12, 0), x.view(), {.threads = 1});
    double error = 0.0;
    double signal = 0.0;
    for (std::size_t i = 0; i < exact.values().size(); ++i) {
        error += std::pow(bare.values()[i] - exact.values()[i], 2);
        signal += std::pow(exact.values()[i], 2);
    }
    // 32767 levels per side of a range of about 4 standard deviations: 4 / 32767 / sqrt(12).
    EXPECT_LT(std::sqrt(error / signal), 5e-5);
}

TEST(Nonideality, EachAloneChangesSomethingAndEachRemovalToo) {
    const auto all = everything(ReadMode::one_phase);
    const auto bare = products(switched::without_all(all));
    const auto full = products(all);
    for (const auto& n : nonidealities()) {
        EXPECT_TRUE(n.present(all)) << n.name;
        EXPECT_FALSE(n.present(switched::without(all, n.name))) << n.name;
        EXPECT_NE(products(switched::without(all, n.name)), full) << n.name;
        // A limited count alone only lowers conductances, which is not an error: products differ in the
        // last bits and where they saturate.
        EXPECT_NE(products(switched::only(all, n.name)), bare) << n.name;
    }
}

TEST(Nonideality, SwitchingOffTwiceIsSwitchingOffOnce) {
    const auto once = switched::without_all(everything(ReadMode::four_phase));
    EXPECT_EQ(products(once), products(switched::without_all(once)));
    for (const auto& n : nonidealities()) EXPECT_FALSE(n.present(once)) << n.name;
}

TEST(Nonideality, UnknownNameListsTheKnownOnes) {
    EXPECT_THAT(
        error_of([] { nonideality("gravity"); }),
        testing::AllOf(testing::StartsWith("bad_usage: "), testing::HasSubstr("known: input_quantisation")));
}

}  // namespace
}  // namespace imka

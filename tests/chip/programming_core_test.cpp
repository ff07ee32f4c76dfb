// Cores programmed by every method: same bits for any thread count, errors compared with the statistical
// model and the literal simulator, and the gain of gradient descent.
#include "imka/chip/program/programming_core.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/program/calibrate.hpp"
#include "imka/chip/program/programming_gradient.hpp"
#include "imka/chip/region.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "support/error.hpp"
#include "support/weight_scale.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

constexpr double kDeviation = 40.0 / 127.0;

Matrix<float> weights_of(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<float> w(rows, cols);
    for (std::size_t i = 0; i < rows * cols; ++i)
        w.values()[i] = truncated_normal(seed, Stream::test, i, 3.0F);
    return w;
}

Matrix<float> inputs_of(std::size_t count, std::size_t rows, std::uint64_t seed) {
    Matrix<float> x(count, rows);
    fill_normal(seed, Stream::test, 0, x.values());
    for (auto& v : x.values()) v *= static_cast<float>(kDeviation);
    return x;
}

struct CoreBench {
    ChipSpec chip = chip_preset("hermes-published");
    Matrix<float> w;
    RegionScale mapping;
    ProgrammingConfig config;
    RegionIds ids{.seed = 9, .core = 2};

    CoreBench(std::size_t rows, std::size_t cols, std::uint64_t seed = 1) : w(weights_of(rows, cols, seed)) {
        const auto x = inputs_of(500, rows, seed + 1000);
        mapping.column_us = calibrate_columns(chip.core, chip.device.g_max_us, w.view(), x.view(), 1.0);
        mapping.output_step = 4.0 * std::sqrt(static_cast<double>(rows)) * kDeviation / 127.0;
    }
    ProgrammingResult run(ProgrammingMethod method, int threads = 0) const {
        auto c = config;
        c.method = method;
        return program_region_by({chip, w.view(), mapping, ids, c}, {.threads = threads});
    }
};

TEST(ProgramRegionBy, StatisticalIsTheDrawWithoutPulses) {
    const CoreBench b(40, 30);
    const auto result = b.run(ProgrammingMethod::statistical);
    const auto core = program_region(b.chip, b.w.view(), b.mapping, b.ids);
    EXPECT_EQ(result.region.plus.g_us, core.plus.g_us);
    EXPECT_EQ(result.region.minus.nu, core.minus.nu);
    EXPECT_EQ(result.cost.pulses, 0U);
    EXPECT_EQ(result.before.product, result.after.product);
    EXPECT_GT(result.after.product, 0.02);
}

TEST(ProgramRegionBy, HasTheSameBitsForAnyThreadCount) {
    CoreBench b(70, 75);
    b.config.gradient.iterations = 4;
    b.config.gradient.inputs = 300;
    for (const auto method :
         {ProgrammingMethod::verify, ProgrammingMethod::max_set_fill, ProgrammingMethod::gradient_descent}) {
        const auto one = b.run(method, 1);
        const auto three = b.run(method, 3);
        EXPECT_EQ(one.region.plus.g_us, three.region.plus.g_us) << to_string(method);
        EXPECT_EQ(one.region.minus.g_us, three.region.minus.g_us) << to_string(method);
        EXPECT_EQ(one.region.plus.nu, three.region.plus.nu) << to_string(method);
        EXPECT_EQ(one.region.affine.columns[7].scale, three.region.affine.columns[7].scale);
        EXPECT_EQ(one.after.product, three.after.product) << to_string(method);
        EXPECT_EQ(one.cost.joules, three.cost.joules) << to_string(method);
        EXPECT_GT(one.cost.pulses, 70U * 75U) << to_string(method);
    }
}

TEST(ProgramRegionBy, VerificationBeatsOnePulse) {
    const CoreBench b(64, 64);
    for (const auto method : {ProgrammingMethod::verify, ProgrammingMethod::max_set_fill}) {
        const auto r = b.run(method);
        EXPECT_LT(r.after.weight, 0.75 * r.before.weight) << to_string(method);
        EXPECT_LT(r.after.product, 0.75 * r.before.product) << to_string(method);
        EXPECT_EQ(r.polarities, 2U * 64U * 64U);
        EXPECT_LT(r.unreached, r.polarities / 50) << to_string(method);
    }
}

// Pulses give the same error as the statistical model, which is the published fit.
TEST(ProgramRegionBy, MaxSetFillHasTheWeightErrorOfTheStatisticalModel) {
    CoreBench b(128, 128);
    b.mapping.column_us = column_conductances(b.w.view(), WeightScale::column, 20.7);
    b.chip.core.adc.max_count = 0;  // such large conductances exceed the converter's range
    const auto drawn = b.run(ProgrammingMethod::statistical).after.weight;
    const auto pulsed = b.run(ProgrammingMethod::max_set_fill).after.weight;
    EXPECT_NEAR(pulsed / drawn, 1.0, 0.05) << pulsed << " " << drawn;
}

TEST(ProgramRegionBy, NeedsAPulseModel) {
    CoreBench b(8, 8);
    b.chip = chip_preset("rram-wan");
    EXPECT_NO_THROW(b.run(ProgrammingMethod::statistical));
    EXPECT_THAT(
        error_of([&] { b.run(ProgrammingMethod::max_set_fill); }),
        HasSubstr(
            "bad_config: chip 'rram-wan' has no section 'pulses', required for programming by max_set_fill"));
}

TEST(ProgramRegionBy, RejectsInvalidSettings) {
    CoreBench b(8, 8);
    b.config.gradient.inputs = 1;
    EXPECT_THAT(error_of([&] { b.run(ProgrammingMethod::statistical); }),
                HasSubstr("inputs: 1 is out of range; it must be >= 2"));
    b.config.gradient = {.iterations = 0};
    EXPECT_THAT(error_of([&] { b.run(ProgrammingMethod::verify); }), HasSubstr("iterations: 0"));
    b.config.gradient = {};
    b.mapping.column_us[3] = 30.0;
    EXPECT_THAT(error_of([&] { b.run(ProgrammingMethod::max_set_fill); }),
                HasSubstr("uS; it must be from 0 to 20.7 uS"));
    b.mapping.column_us[3] = 5.0;
    b.w(2, 3) = std::nanf("");
    EXPECT_THAT(error_of([&] { b.run(ProgrammingMethod::max_set_fill); }), HasSubstr("is not finite"));
}

// The sum of two devices with different drift, represented by one exponent: exact at 0 s and after a day,
// close in between.
TEST(PulsedArray, StateDriftsLikeItsDevices) {
    const CoreBench b(24, 24);
    const PulseContext context{b.chip.device, *b.chip.pulses, 3};
    Matrix<float> target(24, 24);
    for (std::size_t i = 0; i < 576; ++i) target.values()[i] = static_cast<float>(i) * 0.035F;
    ProgrammingCost cost;
    const auto array = fill_array(
        context, {.target_us = target.view(), .ids = {.seed = 3, .first = 0, .stride = 24}}, {}, cost);
    const auto state = array_state(context, array, 0.0);
    auto quiet = b.chip.device;
    quiet.read_noise_scale = 0.0;
    auto silent = state;
    std::fill(silent.read_noise.values().begin(), silent.read_noise.values().end(), 0.0F);
    for (const double seconds : {0.0, 3600.0, 86400.0}) {
        const auto now = conductances_at(quiet, silent, {.seconds = seconds}).g_us;
        for (std::size_t cell = 0; cell < 576; ++cell) {
            const double direct = polarity_at(context, array, cell, seconds + 300.0).g_us;
            EXPECT_NEAR(now.values()[cell], direct, (seconds == 3600.0 ? 0.02 : 1e-5) * direct)
                << seconds << " " << cell;
        }
    }
}

// Without noise and rounding, products match the literal simulator; with them, the error has the same
// size. 200 products of 40 outputs: the error of a root mean square of 8000 is 0.8 %.
TEST(MeasuredProducts, MatchTheLiteralSimulator) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        CoreBench b(60, 40);
        b.chip.core.read_mode = mode;
        const auto x = tuning_inputs(b.run(ProgrammingMethod::statistical).region, kDeviation, 0, 200);
        const auto rms_difference = [&](const ProgrammedRegion& core, const ReadTime& time) {
            const auto literal = literal_counts(core, x.view(), time, {.seed = 4, .first = 0}).counts;
            const auto y = measure_products(core, crossbar_of(core, time), x, 0, {});
            double sum = 0.0;
            for (std::size_t i = 0; i < y.values().size(); ++i) {
                const double d = y.values()[i] * core.spec.adc.counts_per_us - literal.values()[i];
                sum += d * d;
            }
            return std::sqrt(sum / static_cast<double>(y.values().size()));
        };
        auto quiet = b;
        quiet.chip.core.adc.noise_counts = 0.0;
        quiet.chip.core.adc.rounding = AdcRounding::none;
        EXPECT_LT(rms_difference(quiet.run(ProgrammingMethod::statistical).region, {.spacing_seconds = 0.0}),
                  1e-2)
            << to_string(mode);
        // Both have independent noise: their difference has sqrt(2) times as much.
        const auto noisy = b.run(ProgrammingMethod::statistical).region;
        const ReadTime slow{.seconds = 0.0, .spacing_seconds = 1e-3};
        const auto literal_one = literal_counts(noisy, x.view(), slow, {.seed = 4, .first = 0}).counts;
        const auto literal_two = literal_counts(noisy, x.view(), slow, {.seed = 5, .first = 0}).counts;
        double sum = 0.0;
        for (std::size_t i = 0; i < literal_one.values().size(); ++i) {
            const double d = literal_one.values()[i] - literal_two.values()[i];
            sum += d * d;
        }
        const double expected = std::sqrt(sum / static_cast<double>(literal_one.values().size()));
        EXPECT_NEAR(rms_difference(noisy, slow) / expected, 1.0, 5.0 * 0.011) << to_string(mode);
    }
}

TEST(GradientDescent, StopsAtItsTargetError) {
    CoreBench b(48, 48);
    b.config.gradient.inputs = 512;
    b.config.gradient.target_error = 0.5;
    const auto at_once = b.run(ProgrammingMethod::gradient_descent);
    ASSERT_EQ(at_once.steps.size(), 1U);
    EXPECT_EQ(at_once.steps[0].pulses, 0U);
    EXPECT_EQ(at_once.cost.products, 512U);
    b.config.gradient.target_error = 0.0;
    b.config.gradient.iterations = 6;
    const auto all = b.run(ProgrammingMethod::gradient_descent);
    EXPECT_EQ(all.steps.size(), 6U);
    EXPECT_LT(all.steps[5].error, all.steps[0].error);
}

// At 300 s, t_0 of the device: 128 inputs and 48 outputs, 10 draws of weights, devices and converters.
TEST(GradientDescent, LowersTheMeasuredErrorByAQuarter) {
    double before = 0.0;
    double after = 0.0;
    for (std::uint64_t draw = 0; draw < 10; ++draw) {
        CoreBench b(128, 48, 100 + draw);
        b.ids.seed = 50 + draw;
        const auto r = b.run(ProgrammingMethod::gradient_descent);
        std::printf("draw %2d: max-SET-fill %.4f, gradient descent %.4f\n", static_cast<int>(draw),
                    r.before.product, r.after.product);
        before += r.before.product;
        after += r.after.product;
        EXPECT_LT(r.after.weight, r.before.weight);
    }
    EXPECT_LT(after, 0.75 * before);
}

// Mean relative error of a core's outputs with refitted scale and offset, by the literal simulator.
double literal_error(ProgrammedRegion core, const Matrix<float>& w) {
    const auto fit = inputs_of(300, w.rows(), 71);
    const auto x = inputs_of(60, w.rows(), 72);
    fit_affine(literal_counts(core, fit.view(), {}, {.seed = 81}).counts.view(),
               exact_products(fit.view(), w.view()).view(), core);
    const auto y = literal_products(core, x.view(), {}, {.seed = 82});
    const auto exact = exact_products(x.view(), w.view());
    return std::pow(10.0, -signal_to_noise_db(y.view(), exact.view()) / 20.0);
}

// Columns are calibrated for smaller inputs than those of the loop, which would saturate at these
// conductances.
TEST(GradientDescent, KeepsItsInputsWithinTheConverters) {
    CoreBench b(120, 24);
    auto x = inputs_of(500, 120, 77);
    for (auto& v : x.values()) v *= 0.5F;
    b.mapping.column_us = calibrate_columns(b.chip.core, b.chip.device.g_max_us, b.w.view(), x.view(), 1.0);
    b.config.gradient.iterations = 20;
    const auto result = b.run(ProgrammingMethod::gradient_descent);
    EXPECT_LT(result.before.product, 0.35) << "max-SET-fill alone";
    EXPECT_LT(result.after.product, 0.85 * result.before.product);
}

TEST(GradientDescent, AlsoImprovesTheLiteralSimulator) {
    const CoreBench b(128, 128);
    const auto filled = b.run(ProgrammingMethod::max_set_fill).region;
    const auto tuned = b.run(ProgrammingMethod::gradient_descent).region;
    EXPECT_LT(literal_error(tuned, b.w), 0.8 * literal_error(filled, b.w));
    // Scale and offset are included: outputs need no calibration.
    const auto x = inputs_of(60, 128, 72);
    const auto exact = exact_products(x.view(), b.w.view());
    const auto y = literal_products(tuned, x.view(), {}, {.seed = 82});
    const double error = std::pow(10.0, -signal_to_noise_db(y.view(), exact.view()) / 20.0);
    EXPECT_LT(error, 1.1 * literal_error(tuned, b.w));
}

}  // namespace
}  // namespace imka

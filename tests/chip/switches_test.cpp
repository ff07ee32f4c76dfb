// Each small converter error alone has the effect of its formula, in both simulators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/fast.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"
#include "support/moments.hpp"

namespace imka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Counts of a perfect core with one error, by one simulator. A weight of 1 is g_max: 180 counts for a full
// input.
using Simulator = std::function<Matrix<double>(const ProgrammedRegion&, MatrixView<const float>)>;

const ProductIds kIds{.seed = 3, .first = 11};

Matrix<double> by_literal(const ProgrammedRegion& core, MatrixView<const float> x) {
    return literal_counts(core, x, {}, kIds).counts;
}
Matrix<double> by_fast(const ProgrammedRegion& core, MatrixView<const float> x) {
    const auto counts = fast_counts(prepare(core, {}), x, kIds, {.threads = 1}).counts;
    Matrix<double> out(counts.rows(), counts.cols());
    std::ranges::copy(counts.values(), out.values().begin());
    return out;
}
const std::vector<Simulator>& simulators() {
    static const std::vector<Simulator> list = {by_literal, by_fast};
    return list;
}

Matrix<float> matrix(std::size_t cols, const std::vector<float>& values) {
    Matrix<float> m(values.size() / cols, cols);
    std::ranges::copy(values, m.values().begin());
    return m;
}

ProgrammedRegion core_with(const Matrix<float>& w, const std::function<void(CoreSpec&)>& set) {
    auto chip = chip_preset("ideal");
    chip.device.g_max_us = 20.7;
    set(chip.core);
    const std::vector<double> us(w.cols(), chip.device.g_max_us);
    return program_region(chip, w.view(), {.column_us = us}, {.seed = 1, .core = 2});
}

// The same inputs, repeated.
Matrix<float> repeated(const std::vector<float>& x, std::size_t times) {
    Matrix<float> m(times, x.size());
    for (std::size_t v = 0; v < times; ++v) std::ranges::copy(x, m.row(v).begin());
    return m;
}

std::vector<double> column(const Matrix<double>& m, std::size_t c) {
    std::vector<double> out;
    for (std::size_t v = 0; v < m.rows(); ++v) out.push_back(m(v, c));
    return out;
}

TEST(InputRounding, TruncatesTowardsZero) {
    const std::vector<float> x = {0.999F / 127.0F, -0.999F / 127.0F, 1.001F / 127.0F, -63.7F / 127.0F, 5.0F};
    std::vector<std::int32_t> steps(x.size());
    quantize_inputs({.rounding = InputRounding::truncate}, x, 1.0, steps);
    EXPECT_THAT(steps, ElementsAre(0, 0, 1, -63, 127));
    // A mean loss of half a step for every input that is not 0.
    const auto w = matrix(1, {1.0F});
    const auto in = matrix(1, {0.5F * 127.0F / 127.0F, -10.9F / 127.0F});
    for (const auto& run : simulators()) {
        const auto counts =
            run(core_with(w, [](CoreSpec& c) { c.dac.rounding = InputRounding::truncate; }), in.view());
        EXPECT_NEAR(counts(0, 0), 63.0 * 180.0 / 127.0, 1e-4);
        EXPECT_NEAR(counts(1, 0), -10.0 * 180.0 / 127.0, 1e-4);
    }
}

TEST(InputJitter, LengthensOnlyExistingPulses) {
    const DacConfig c{.jitter_steps = 2.0};
    EXPECT_DOUBLE_EQ(jittered(c, 0.5, 1.5), 0.5 + 3.0 / 127.0);
    EXPECT_EQ(jittered(c, 0.01, -1.0), 0.0) << "a pulse length is never negative";
    EXPECT_EQ(jittered(c, 0.0, 1.5), 0.0);
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.dac.jitter_steps = -1.0;
                    validate(wrong);
                }),
                HasSubstr("input_jitter: -1"));
}

// Counts of columns j and k vary together: cov = (180 jitter / 127)² sum_i w_ij w_ik over the inputs that
// are not 0.
TEST(InputJitter, HasItsSizeAndMovesColumnsTogether) {
    const auto w = matrix(2, {1.0F, 0.5F, -0.5F, 1.0F, 0.8F, 0.2F});
    const auto x = repeated({0.9F, -0.6F, 0.0F}, 20'000);
    constexpr double kJitter = 1.5;
    const double unit = 180.0 * kJitter / 127.0;
    for (const auto& run : simulators()) {
        for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
            const auto counts = run(core_with(w,
                                              [&](CoreSpec& c) {
                                                  c.read_mode = mode;
                                                  c.dac.jitter_steps = kJitter;
                                              }),
                                    x.view());
            std::vector<double> sums;
            for (std::size_t v = 0; v < counts.rows(); ++v) sums.push_back(counts(v, 0) + counts(v, 1));
            const auto first = moments(column(counts, 0));
            const auto both = moments(sums);
            EXPECT_NEAR(first.variance, unit * unit * (1.0 + 0.25), 5 * first.variance_error);
            // Input 2 is negative; a longer pulse changes its two columns by +0.5 and -1 times the same
            // amount.
            const double expected = unit * unit * (1.5 * 1.5 + 0.5 * 0.5);
            EXPECT_NEAR(both.variance, expected, 5 * both.variance_error);
        }
    }
}

// All pulses of an input are lengthened by the same time: sum_b 2^b / 127 = steps / 127, times the share
// jitter / 127.
TEST(InputJitter, OfBitsHasItsSize) {
    const auto w = matrix(1, {1.0F});
    const auto x = repeated({85.0F / 127.0F}, 20'000);
    for (const auto& run : simulators()) {
        for (const auto rounding : {AdcRounding::none, AdcRounding::round}) {
            const auto counts = run(core_with(w,
                                              [&](CoreSpec& c) {
                                                  c.dac.encoding = InputEncoding::bit_serial;
                                                  c.dac.jitter_steps = 6.0;
                                                  c.adc.rounding = rounding;
                                                  c.adc.counts_per_us *= 100.0;
                                              }),
                                    x.view());
            const auto m = moments(column(counts, 0));
            EXPECT_NEAR(std::sqrt(m.variance), 18000.0 * 85.0 / 127.0 * 6.0 / 127.0,
                        0.02 * std::sqrt(m.variance));
        }
    }
}

// The sign is wrong with probability Phi(-|v| / polarity_error).
TEST(PolarityError, HasTheProbabilityOfItsFormula) {
    const auto w = matrix(1, {1.0F});
    constexpr std::size_t kCount = 20'000;
    for (const auto& run : simulators()) {
        for (const float steps : {4.0F, -12.0F, 40.0F}) {
            const auto x = repeated({steps / 127.0F}, kCount);
            const auto counts = run(core_with(w,
                                              [](CoreSpec& c) {
                                                  c.read_mode = ReadMode::one_phase;
                                                  c.adc.polarity_error_counts = 20.0;
                                              }),
                                    x.view());
            const double value = 180.0 * steps / 127.0;
            double wrong = 0.0;
            for (std::size_t v = 0; v < kCount; ++v) {
                EXPECT_NEAR(std::abs(counts(v, 0)), std::abs(value), 1e-4) << "the magnitude does not change";
                if (counts(v, 0) * value < 0.0) wrong += 1.0;
            }
            const double p = 0.5 * std::erfc(std::abs(value) / 20.0 / std::numbers::sqrt2);
            EXPECT_NEAR(wrong / kCount, p, 5 * std::sqrt(p * (1 - p) / kCount)) << steps;
        }
    }
}

TEST(PolarityError, HasNoEffectInFourPhases) {
    const auto w = matrix(1, {0.1F});
    const auto x = repeated({0.01F}, 50);
    for (const auto& run : simulators()) {
        const auto counts =
            run(core_with(w, [](CoreSpec& c) { c.adc.polarity_error_counts = 1e3; }), x.view());
        for (const double c : counts.values()) EXPECT_GT(c, 0.0);
    }
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.adc.polarity_error_counts = -1.0;
                    validate(wrong);
                }),
                HasSubstr("polarity_error: -1"));
}

TEST(OffsetMean, IsAddedInOnePhaseAndCancelsInFour) {
    const auto w = matrix(2, {1.0F, -1.0F, -1.0F, 1.0F});
    const auto x = matrix(2, {0.5F, -0.25F});
    const double product = 180.0 * (64.0 + 32.0) / 127.0;
    for (const auto& run : simulators()) {
        for (const double offset : {4.0, -3.0}) {
            const auto counts = [&](ReadMode mode) {
                return run(core_with(w,
                                     [&](CoreSpec& c) {
                                         c.read_mode = mode;
                                         c.adc.offset_mean_counts = offset;
                                     }),
                           x.view());
            };
            EXPECT_NEAR(counts(ReadMode::one_phase)(0, 0), product + offset, 1e-3);
            EXPECT_NEAR(counts(ReadMode::one_phase)(0, 1), -product + offset, 1e-3);
            // Two phases of each column are empty: they clip a negative offset at 0.
            const double left = offset > 0.0 ? 0.0 : 2.0 * offset;
            EXPECT_NEAR(counts(ReadMode::four_phase)(0, 0), product + left, 1e-3);
            EXPECT_NEAR(counts(ReadMode::four_phase)(0, 1), -product - left, 1e-3);
        }
    }
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.adc.offset_mean_counts = std::nan("");
                    validate(wrong);
                }),
                HasSubstr("offset_mean: nan"));
}

TEST(OutputFloor, RoundsTheSignedSumDown) {
    const auto w = matrix(1, {1.0F});
    const auto x = matrix(1, {10.0F / 127.0F, -10.0F / 127.0F});  // 14.17 counts
    for (const auto& run : simulators()) {
        for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
            const auto counts = run(core_with(w,
                                              [&](CoreSpec& c) {
                                                  c.read_mode = mode;
                                                  c.adc.output_floor = true;
                                              }),
                                    x.view());
            EXPECT_EQ(counts(0, 0), 14.0);
            EXPECT_EQ(counts(1, 0), -15.0);
        }
    }
}

TEST(Gain, OfAConverterIsNeverNegative) {
    const AdcConfig absurd{.gain_sd = 3.0, .negative_gain_sd = 3.0};
    std::size_t least = 0;
    for (const auto& c : draw_adc_columns(absurd, 1, 0, 1000)) {
        EXPECT_GE(c.gain, 0.01);
        EXPECT_GE(c.negative_gain, 0.01 * c.gain);
        if (c.gain == 0.01) ++least;
    }
    EXPECT_GT(least, 200U) << "1 + 3 N is below 0.01 with probability 0.37";
}

// With a negative gain the two simulators once chose different counters.
TEST(Gain, WithExtremeSpreadIsTheSameInBothSimulators) {
    Matrix<float> w(6, 40);
    fill_normal(1, Stream::test, 0, w.values());
    Matrix<float> x(50, 6);
    fill_normal(2, Stream::test, 0, x.values());
    const auto core = core_with(w, [](CoreSpec& c) {
        c.read_mode = ReadMode::one_phase;
        c.adc.gain_sd = 2.0;
        c.adc.negative_gain_sd = 2.0;
    });
    const auto literal = by_literal(core, x.view());
    const auto fast = by_fast(core, x.view());
    for (std::size_t i = 0; i < fast.values().size(); ++i)
        ASSERT_NEAR(fast.values()[i], literal.values()[i], 1e-5 * std::abs(literal.values()[i]) + 1e-2);
}

}  // namespace
}  // namespace imka

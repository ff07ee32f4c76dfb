// Input and output converters, the affine unit and IR drop, compared with values computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "imka/chip/device/converter.hpp"
#include "imka/chip/region.hpp"
#include "support/error.hpp"
#include "support/moments.hpp"

namespace imka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Dac, RoundsToStepsOfItsRangeAndClips) {
    const std::vector<float> x = {0.0F, 2.0F, -2.0F, 3.0F, -1e30F, 1.0F, 2.0F / 127.0F, 0.0078F, -0.0080F};
    std::vector<std::int32_t> steps(x.size());
    quantize_inputs({}, x, 2.0, steps);
    EXPECT_THAT(steps, ElementsAre(0, 127, -127, 127, -127, 64, 1, 0, -1)) << "ties to even: 63.5 -> 64";
    quantize_inputs({.levels = 7}, x, 2.0, steps);
    EXPECT_EQ(steps[5], 4);
}

TEST(Dac, RejectsValuesThatAreNotFinite) {
    std::vector<std::int32_t> steps(2);
    for (const float wrong : {std::nanf(""), INFINITY}) {
        const std::vector<float> x = {0.0F, wrong};
        EXPECT_THAT(error_of([&] { quantize_inputs({}, x, 1.0, steps); }), HasSubstr("bad_data: input 1: "));
    }
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.dac.levels = 0;
                    validate(wrong);
                }),
                HasSubstr("input_levels: 0"));
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.dac.step_seconds = 0.0;
                    validate(wrong);
                }),
                HasSubstr("input_step: 0"));
}

TEST(Dac, SlicesAddUpToTheMagnitude) {
    for (const auto encoding : {InputEncoding::pulse_width, InputEncoding::bit_serial}) {
        const DacConfig c{.encoding = encoding};
        EXPECT_EQ(slice_count(c), encoding == InputEncoding::bit_serial ? 7 : 1);
        for (int steps = -127; steps <= 127; ++steps) {
            double sum = 0.0;
            for (int s = 0; s < slice_count(c); ++s) sum += slice_weight(c, s) * slice_duration(c, steps, s);
            EXPECT_NEAR(sum, std::abs(steps) / 127.0, 1e-15);
        }
    }
}

TEST(Adc, RoundsFloorsAndSaturatesAPhase) {
    const AdcColumn column;
    AdcConfig c{.max_count = 423};
    EXPECT_EQ(convert(c, column, 10.7, 0.0), 10.7);
    c.rounding = AdcRounding::floor;
    EXPECT_EQ(convert(c, column, 10.7, 0.0), 10.0);
    c.rounding = AdcRounding::round;
    EXPECT_EQ(convert(c, column, 10.7, 0.0), 11.0);
    EXPECT_EQ(convert(c, column, 10.7, -0.4), 10.0) << "noise comes before rounding";
    EXPECT_EQ(convert(c, column, 1000.0, 0.0), 423.0);
    EXPECT_EQ(convert(c, column, 1.0, -5.0), 0.0) << "a counter does not count below 0";
    c.max_count = 4095;
    EXPECT_EQ(convert(c, column, 1000.0, 0.0), 1000.0);
    c.max_count = 0;
    EXPECT_EQ(convert(c, column, 1e6, 0.0), 1e6);
}

TEST(Adc, GainAndOffsetComeBeforeRounding) {
    const AdcConfig c{.max_count = 423, .rounding = AdcRounding::floor};
    const AdcColumn column{.gain = 1.1, .negative_gain = 0.9, .offset_counts = -1.5};
    EXPECT_EQ(convert(c, column, 100.0, 0.0), 108.0);
    EXPECT_EQ(convert_signed(c, column, 100.0, {}), 108.0);
    EXPECT_EQ(convert_signed(c, column, -100.0, {}), -91.0) << "floor of 91.5, counted downwards";
    EXPECT_EQ(convert_signed(c, column, 1e4, {}), 423.0);
    EXPECT_EQ(convert_signed(c, column, -1e4, {}), -423.0);
}

TEST(Adc, ColumnsDifferByTheirDeviations) {
    const AdcConfig c{.gain_sd = 0.04, .negative_gain_sd = 0.02, .offset_sd_counts = 1.5};
    constexpr std::size_t kCount = 40'000;
    const auto columns = draw_adc_columns(c, 5, 0, kCount);
    std::vector<double> gain;
    std::vector<double> ratio;
    std::vector<double> offset;
    for (const auto& column : columns) {
        gain.push_back(column.gain);
        ratio.push_back(column.negative_gain / column.gain);
        offset.push_back(column.offset_counts);
    }
    const auto check = [](const std::vector<double>& values, double mean, double sd) {
        const auto m = moments(values);
        EXPECT_NEAR(m.mean, mean, 5.0 * m.mean_error);
        EXPECT_NEAR(m.variance, sd * sd, 5.0 * m.variance_error);
    };
    check(gain, 1.0, 0.04);
    check(ratio, 1.0, 0.02);
    check(offset, 0.0, 1.5);
    EXPECT_EQ(draw_adc_columns(c, 5, 100, 1)[0].gain, columns[100].gain)
        << "a column computed alone is the same";
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.adc.gain_sd = -1.0;
                    validate(wrong);
                }),
                HasSubstr("gain_sd: -1"));
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.adc.counts_per_us = 0.0;
                    validate(wrong);
                }),
                HasSubstr("counts_per_us: 0"));
}

TEST(Affine, KeepsHalfPrecisionNumbersAndRoundsTiesToEven) {
    // All finite positive numbers in order: 10 fraction bits, subnormal below 2^-14.
    double last = 0.0;
    for (int bits = 1; bits < 0x7c00; ++bits) {
        const int exponent = bits >> 10;
        const int fraction = bits & 0x3ff;
        const double value =
            exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
        ASSERT_EQ(round_to_half(value), value);
        ASSERT_EQ(round_to_half(-value), -value);
        const double middle = 0.5 * (last + value);
        ASSERT_EQ(round_to_half(middle), (bits & 1) == 0 ? value : last);
        ASSERT_EQ(round_to_half(std::nextafter(middle, 0.0)), last);
        ASSERT_EQ(round_to_half(std::nextafter(middle, 1e9)), value);
        last = value;
    }
    EXPECT_EQ(last, 65504.0);
    EXPECT_EQ(round_to_half(65519.9), 65504.0);
    EXPECT_EQ(round_to_half(65520.0), std::numeric_limits<double>::infinity());
    EXPECT_EQ(round_to_half(-1e300), -std::numeric_limits<double>::infinity());
}

TEST(Affine, RoundsAsConfigured) {
    const AffineColumn column{.scale = 1.0 / 3.0, .offset = 0.1};
    EXPECT_DOUBLE_EQ(apply_affine({}, column, 100.0), 100.0 / 3.0 + 0.1);
    // Half precision: 1/3 -> 0.333251953125, 0.1 -> 0.0999755859375, the sum 33.4251708984375 -> 33.4375.
    EXPECT_EQ(apply_affine({.fp16 = true}, column, 100.0), 33.4375);
    EXPECT_EQ(apply_affine({.output_bits = 8}, column, 100.0), 33.0);
    EXPECT_EQ(apply_affine({.output_bits = 8}, column, 1e6), 127.0);
    EXPECT_EQ(apply_affine({.output_bits = 8}, column, -1e6), -127.0);
    EXPECT_EQ(apply_affine({.output_bits = 4}, column, 1e6), 7.0);
    EXPECT_EQ(apply_affine({.fp16 = true, .output_bits = 8}, column, 1e9), 127.0)
        << "infinity is clipped too";
    const AffineConfig down{.output_bits = 8, .rounding = OutputRounding::floor};
    EXPECT_EQ(apply_affine(down, {.scale = 1.0, .offset = 0.0}, 2.9), 2.0);
    EXPECT_EQ(apply_affine(down, {.scale = 1.0, .offset = 0.0}, -2.1), -3.0);
    EXPECT_EQ(apply_affine(down, {.scale = 1.0, .offset = 0.0}, -500.0), -127.0);
    // A limit acts before rounding: 5.5 -> 5, -5.5 -> -6.
    const AffineColumn limited{.scale = 1.0, .limit = 5.5};
    EXPECT_EQ(apply_affine(down, limited, 100.0), 5.0);
    EXPECT_EQ(apply_affine(down, limited, -100.0), -6.0);
    EXPECT_EQ(apply_affine(down, limited, 4.2), 4.0);
    AffineConfig soft;
    soft.limit.shape = LimitShape::soft;
    EXPECT_DOUBLE_EQ(apply_affine(soft, limited, 5.5), 5.5 / std::sqrt(2.0));
    EXPECT_NEAR(apply_affine(soft, limited, 1e300), 5.5, 1e-7);
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.affine.headroom = 0.0;
                    validate(wrong);
                }),
                HasSubstr("output_headroom: 0"));
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.affine.output_bits = 1;
                    validate(wrong);
                }),
                HasSubstr("output_bits: 1"));
}

TEST(IrDrop, MatchesThePolynomialComputedByHand) {
    // Four rows, 0.35 ohm, 20.7 uS and full pulses throughout: a = 4 * 0.35 * 82.8e-6 = 1.1592e-4,
    // c = 5.795731e-5; weights of the rows, from the converter: 0, 7/16, 3/4, 15/16, sum 2.125.
    ColumnCurrent current;
    for (std::size_t r = 0; r < 4; ++r) {
        current.sum += 20.7;
        current.absolute += 20.7;
        current.weighted += 20.7 * ir_drop_weight(r, 0, 4);
    }
    EXPECT_DOUBLE_EQ(current.weighted, 20.7 * 2.125);
    EXPECT_NEAR(82.8 - with_ir_drop({.scale = 1.0}, current, 4), 5.795731e-5 * 20.7 * 2.125, 1e-9);
    EXPECT_EQ(with_ir_drop({}, current, 4), 82.8);
    EXPECT_EQ(ir_drop_weight(3, 1, 4), 0.0) << "odd columns have their converter at the other end";
}

TEST(IrDrop, HasTheSizeOfTheFormulaForAFullCore) {
    // A typical phase of 256 rows: mean relative conductance 0.27 of 20.7 uS, mean input 0.25, a quarter
    // of the cells active: about 1/4 of the loss of all cells.
    ColumnCurrent current;
    for (std::size_t r = 0; r < 256; ++r) {
        const double g = 0.27 * 20.7 * 0.25;
        current.sum += g;
        current.absolute += g;
        current.weighted += g * ir_drop_weight(r, 0, 256);
    }
    const double loss = 1.0 - with_ir_drop({.scale = 1.0}, current, 256) / current.sum;
    // a = 256 * 0.35 * 357.7e-6 = 0.03205; c = 0.01582; the weights have the mean 2/3 - 1/512.
    EXPECT_NEAR(loss, 0.01582 * (2.0 / 3.0 - 1.0 / 512.0), 2e-5);
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.ir_drop.scale = -1.0;
                    validate(wrong);
                }),
                HasSubstr("ir_drop: -1"));
    EXPECT_THAT(error_of([] {
                    CoreSpec wrong;
                    wrong.ir_drop.wire_ohm = -1.0;
                    validate(wrong);
                }),
                HasSubstr("wire_resistance: -1"));
}

}  // namespace
}  // namespace imka

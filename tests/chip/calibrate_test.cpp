// Calibration: ranges of known samples, columns just below saturation, least squares that undoes known
// errors.
#include "imka/chip/program/calibrate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/region.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"
#include "support/weight_scale.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

constexpr double kGMax = 20.7;

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed, float sd) {
    Matrix<float> m(rows, cols);
    fill_normal(seed, Stream::test, 0, m.values());
    for (auto& v : m.values()) v *= sd;
    return m;
}

TEST(Calibrate, InputsAreDistinctRowsChosenBySeed) {
    Matrix<float> x(50, 1);
    for (std::size_t i = 0; i < 50; ++i) x(i, 0) = static_cast<float>(i);
    const CalibrationConfig config{.inputs = 20};
    const auto a = calibration_inputs(config, x.view(), 1);
    EXPECT_EQ(a.rows(), 20U);
    EXPECT_EQ(std::set<float>(a.values().begin(), a.values().end()).size(), 20U);
    EXPECT_EQ(calibration_inputs(config, x.view(), 1), a);
    EXPECT_NE(calibration_inputs(config, x.view(), 2), a);
    EXPECT_EQ(calibration_inputs({}, x.view(), 1).rows(), 50U) << "all rows are used";
}

TEST(Calibrate, RangesFollowTheirRule) {
    const auto chip = chip_preset("ideal");
    const Matrix<float> w = normals(100, 3, 1, 1.0F);
    Matrix<float> x(10, 100);  // -1000 ... 999 in steps of 2, out of order
    const auto order = permutation(3, Stream::test, 1000);
    for (std::size_t i = 0; i < 1000; ++i) x.values()[i] = 2.0F * static_cast<float>(order[i]) - 1000.0F;
    const auto range = [&](InputRangeRule rule) {
        return calibrate_scale(chip, w.view(), x.view(),
                               {.input_range = rule, .quantile = 0.9, .deviations = 1.5})
            .input_range;
    };
    EXPECT_EQ(range(InputRangeRule::max), 1000.0);
    // |x| has 0 once, 1000 once and every even number between twice: element ceil(0.9 * 999) = 900 is 900.
    EXPECT_EQ(range(InputRangeRule::quantile), 900.0);
    // The mean square of even numbers from -1000 to 998 is (1000² + 2) / 3.
    EXPECT_NEAR(range(InputRangeRule::deviation), 1.5 * std::sqrt(1000002.0 / 3.0), 1e-9);
}

TEST(Calibrate, SearchTradesClippingForResolution) {
    // One outlier in 4000 values: 127 steps of the full range would be too coarse for the others.
    const auto w = normals(40, 8, 1, 1.0F);
    auto x = normals(100, 40, 2, 1.0F);
    x(7, 3) = 40.0F;
    auto chip = chip_preset("ideal");
    auto& spec = chip.core;
    const auto range = [&] {
        return calibrate_scale(chip, w.view(), x.view(), {.input_range = InputRangeRule::search}).input_range;
    };
    EXPECT_EQ(range(), 40.0) << "an outlier costs more than its rounding without converter noise";
    spec.adc.noise_counts = 40.0;
    const double noisy = range();
    EXPECT_LT(noisy, 40.0) << "noise in counts matters more for larger ranges";
    EXPECT_GT(noisy, 3.0);
}

ChipSpec with_fill(ChipSpec chip, double fill) {
    chip.core.adc.fill = fill;
    return chip;
}

TEST(Calibrate, ColumnsUseTheConverterAndDoNotSaturateIt) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        for (const auto encoding : {InputEncoding::pulse_width, InputEncoding::bit_serial}) {
            auto chip = chip_preset("ideal");
            chip.core.read_mode = mode;
            chip.core.dac.encoding = encoding;
            chip.core.adc.max_count = 100;
            const auto w = normals(64, 20, 1, 1.0F);
            const auto x = normals(60, 64, 2, 0.4F);
            const auto saturated = [&](double margin) {
                const auto scale = calibrate_scale(with_fill(chip, margin), w.view(), x.view(), {});
                const auto core = program_region(chip, w.view(), scale, {});
                return literal_counts(core, x.view(), {}, {}).saturated;
            };
            EXPECT_EQ(saturated(0.9999), 0U);
            // With a little more conductance, columns at the limit saturate.
            auto scale = calibrate_scale(with_fill(chip, 1.0), w.view(), x.view(), {});
            int limited = 0;
            for (auto& g : scale.column_us) {
                if (g < kGMax) ++limited;
                g = std::min(kGMax, 1.001 * g);
            }
            EXPECT_GT(limited, 15);
            const auto core = program_region(chip, w.view(), scale, {});
            EXPECT_GE(literal_counts(core, x.view(), {}, {}).saturated, static_cast<std::uint64_t>(limited));
        }
    }
}

// The largest conductance of each column, by plain loops over phases, slices and inputs.
std::vector<double> plain_columns(const CoreSpec& spec, MatrixView<const float> w, MatrixView<const float> x,
                                  double range) {
    std::vector<double> columns;
    for (std::size_t c = 0; c < w.cols(); ++c) {
        double largest = 0.0;
        for (std::size_t r = 0; r < w.rows(); ++r) largest = std::max(largest, std::abs(double{w(r, c)}));
        double most = 0.0;
        for (std::size_t v = 0; v < x.rows(); ++v) {
            std::vector<std::int32_t> steps(x.cols());
            quantize_inputs(spec.dac, x.row(v), range, steps);
            for (int slice = 0; slice < slice_count(spec.dac); ++slice) {
                double sums[2][2] = {};  // by the sign of the input and that of the weight
                for (std::size_t i = 0; i < steps.size(); ++i) {
                    const bool one_phase = spec.read_mode == ReadMode::one_phase;
                    const double weight = static_cast<float>(double{w(i, c)} / largest);
                    const double duration = slice_duration(spec.dac, steps[i], slice);
                    sums[one_phase || steps[i] > 0][one_phase || weight > 0.0] +=
                        (steps[i] > 0 ? duration : -duration) * weight;
                }
                for (const auto& by_sign : sums) {
                    for (const double sum : by_sign) most = std::max(most, std::abs(sum));
                }
            }
        }
        const double limit = spec.adc.fill * spec.adc.max_count / spec.adc.counts_per_us;
        columns.push_back(most * kGMax > limit ? limit / most : kGMax);
    }
    return columns;
}

TEST(Calibrate, ColumnsAreThoseOfPlainLoops) {
    auto w = normals(64, 45, 1, 1.0F);
    const auto x = normals(60, 64, 2, 0.4F);
    for (std::size_t c = 0; c < w.cols(); ++c) w(c, c) = 0.0F;
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        for (const auto encoding : {InputEncoding::pulse_width, InputEncoding::bit_serial}) {
            auto spec = chip_preset("ideal").core;
            spec.read_mode = mode;
            spec.dac.encoding = encoding;
            spec.adc.max_count = 100;
            const auto columns = calibrate_columns(spec, kGMax, w.view(), x.view(), 0.9);
            EXPECT_EQ(columns, plain_columns(spec, w.view(), x.view(), 0.9));
            EXPECT_GT(std::set<double>(columns.begin(), columns.end()).size(), 30U);
        }
    }
}

TEST(Calibrate, AffineUndoesGainAndOffsetOfEveryColumn) {
    auto chip = chip_preset("ideal");
    chip.core.read_mode = ReadMode::one_phase;
    chip.core.adc.gain_sd = 0.1;
    chip.core.adc.offset_sd_counts = 5.0;
    chip.core.dac.levels = 32767;
    const auto w = normals(32, 12, 1, 1.0F);
    const auto x = normals(50, 32, 2, 0.4F);
    const auto exact = exact_products(x.view(), w.view());
    auto core = program_region(chip, w.view(), calibrate_scale(chip, w.view(), x.view(), {}), {.seed = 4});
    const auto snr = [&] {
        return signal_to_noise_db(literal_products(core, x.view(), {}, {}).view(), exact.view());
    };
    EXPECT_LT(snr(), 25.0);
    fit_affine(literal_counts(core, x.view(), {}, {}).counts.view(), exact.view(), core);
    EXPECT_GT(snr(), 70.0) << "the remaining error is from 32767 input steps";
    for (std::size_t c = 0; c < 12; ++c) {
        const auto& column = core.affine.columns[c];
        EXPECT_NEAR(column.offset / column.scale, -core.adc[c].offset_counts, 0.05);
    }
}

TEST(Calibrate, AColumnThatDoesNotVaryGivesItsMean) {
    auto chip = chip_preset("ideal");
    Matrix<float> w(2, 1);
    w(0, 0) = 1.0F;
    auto core = program_region(chip, w.view(), {.column_us = {kGMax}}, {});
    Matrix<double> counts(3, 1);
    Matrix<double> exact(3, 1);
    exact(2, 0) = 6.0;
    fit_affine(counts.view(), exact.view(), core);
    EXPECT_EQ(core.affine.columns[0].scale, 0.0);
    EXPECT_DOUBLE_EQ(core.affine.columns[0].offset, 2.0);
}

TEST(Calibrate, RaisesSignalToNoiseOfTheWholeChip) {
    const auto chip = chip_preset("hermes-published");
    const auto w = normals(128, 64, 1, 1.0F);
    const auto x = normals(120, 128, 2, 0.3F);
    const auto exact = exact_products(x.view(), w.view());
    const auto raw_columns = column_conductances(w.view(), WeightScale::column, kGMax);
    const auto scale = calibrate_scale(chip, w.view(), x.view(), {});
    const auto program = [&](std::vector<double> column_us) {
        return program_region(chip, w.view(),
                              {.column_us = std::move(column_us),
                               .input_range = scale.input_range,
                               .output_step = scale.output_step},
                              {.seed = 3});
    };
    const auto snr = [&](const ProgrammedRegion& core) {
        return signal_to_noise_db(literal_products(core, x.view(), {}, {.seed = 8}).view(), exact.view());
    };
    const auto raw = program(raw_columns);
    auto core = program(scale.column_us);
    const auto before = literal_counts(raw, x.view(), {}, {.seed = 8});
    const auto after = literal_counts(core, x.view(), {}, {.seed = 8});
    EXPECT_GT(before.saturated, before.conversions / 20);
    EXPECT_LT(after.saturated, after.conversions / 1000);
    const double uncorrected = snr(core);
    fit_affine(after.counts.view(), exact.view(), core);
    EXPECT_GT(uncorrected, snr(raw) + 3.0);
    EXPECT_GT(snr(core), uncorrected);
    // A relative error of 10 to 14 % is 17 to 20 dB.
    EXPECT_GT(snr(core), 14.0);
    EXPECT_LT(snr(core), 20.0);
}

TEST(Calibrate, RejectsBadSamples) {
    const auto chip = chip_preset("ideal");
    const auto w = normals(4, 2, 1, 1.0F);
    const auto error = [&](const Matrix<float>& x, const CalibrationConfig& config) {
        return error_of([&] { calibrate_scale(chip, w.view(), x.view(), config); });
    };
    EXPECT_THAT(error(Matrix<float>(5, 4), {}), HasSubstr("bad_data: all calibration inputs are 0"));
    EXPECT_THAT(error(Matrix<float>(0, 4), {}), HasSubstr("bad_data: all calibration inputs are 0"));
    EXPECT_THAT(error(normals(5, 3, 1, 1.0F), {}), HasSubstr("inputs of length 3 for weights of 4"));
    auto x = normals(5, 4, 1, 1.0F);
    EXPECT_THAT(error(x, {.inputs = 0}), HasSubstr("it must be >= 1"));
    EXPECT_THAT(error(x, {.quantile = 1.5}), HasSubstr("quantile: 1.5"));
    EXPECT_THAT(error(x, {.deviations = 0.0}), HasSubstr("deviations: 0"));
    x(2, 1) = INFINITY;
    EXPECT_THAT(error(x, {}), HasSubstr("calibration input 2, value 1: inf is not finite"));
}

TEST(Calibrate, OutputStepsFollowTheLargestProducts) {
    auto chip = chip_preset("ideal");
    auto& spec = chip.core;
    spec.affine.output_bits = 8;
    spec.affine.headroom = 0.5;
    Matrix<float> w(1, 2);
    w(0, 0) = 4.0F;
    w(0, 1) = -1.0F;
    Matrix<float> x(2, 1);
    x(0, 0) = 127.0F;
    x(1, 0) = -20.0F;
    const auto whole = calibrate_scale(chip, w.view(), x.view(), {});
    EXPECT_DOUBLE_EQ(whole.output_step, 0.5 * 4.0);
    // Clipped inputs do not extend the range of results.
    const auto clipped = calibrate_scale(chip, w.view(), x.view(), {.range = 63.5});
    EXPECT_DOUBLE_EQ(clipped.output_step, 0.5 * 2.0);
    // The mean of the largest products of the columns, 508 and 127.
    spec.affine.range = OutputRange::mean;
    EXPECT_DOUBLE_EQ(calibrate_scale(chip, w.view(), x.view(), {}).output_step, 0.5 * 2.5);
    EXPECT_THAT(error_of([&] { calibrate_scale(chip, w.view(), x.view(), {.range = 0.0}); }),
                HasSubstr("input range: 0"));
}

// Compared with the products themselves, for more rows than one block of the sum.
TEST(Calibrate, ProductLimitsAreMultiplesOfTheRootMeanSquareOfProducts) {
    const auto x = normals(600, 5, 1, 2.0F);
    auto w = normals(5, 3, 2, 1.0F);
    for (std::size_t i = 0; i < 5; ++i) w(i, 1) *= 4.0F;
    const auto y = exact_products(x.view(), w.view());
    std::vector<double> rms(3);
    double all = 0.0;
    for (std::size_t c = 0; c < 3; ++c) {
        for (std::size_t v = 0; v < 600; ++v) rms[c] += y(v, c) * y(v, c) / 600.0;
        all += rms[c] / 3.0;
        rms[c] = std::sqrt(rms[c]);
    }
    const auto moment = second_moment(x.view());
    EXPECT_TRUE(product_limits({}, w.view(), moment.view()).empty());
    const auto core = product_limits({.deviations = 3.0}, w.view(), moment.view());
    const auto column =
        product_limits({.deviations = 3.0, .unit = LimitUnit::column}, w.view(), moment.view());
    for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(core[c], 3.0 * std::sqrt(all), 1e-5 * core[c]);
        EXPECT_NEAR(column[c], 3.0 * rms[c], 1e-5 * column[c]);
    }
    for (std::size_t i = 0; i < 5; ++i) w(i, 2) = 0.0F;
    for (const double limit :
         product_limits({.deviations = 3.0, .unit = LimitUnit::column}, w.view(), moment.view()))
        EXPECT_GT(limit, 0.0);
    EXPECT_TRUE(product_limits({.deviations = 3.0}, Matrix<float>(5, 3).view(), moment.view()).empty());
}

}  // namespace
}  // namespace imka

// The literal simulator: the digital product without errors; each switch alone has the effect of its
// formula.
#include "imka/chip/simulate/literal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/region.hpp"
#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"
#include "support/moments.hpp"
#include "support/weight_scale.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed, float sd) {
    Matrix<float> m(rows, cols);
    fill_normal(seed, Stream::test, 0, m.values());
    for (auto& v : m.values()) v *= sd;
    return m;
}

// y = x w in double, x rounded to INT8 steps of the range.
Matrix<double> digital(const Matrix<float>& x, const Matrix<float>& w, double range) {
    Matrix<double> y(x.rows(), w.cols());
    for (std::size_t v = 0; v < x.rows(); ++v) {
        for (std::size_t i = 0; i < w.rows(); ++i) {
            const double clipped = std::clamp(double{x(v, i)} / range, -1.0, 1.0);
            const double step = std::nearbyint(clipped * 127.0) / 127.0 * range;
            for (std::size_t c = 0; c < w.cols(); ++c) y(v, c) += step * w(i, c);
        }
    }
    return y;
}

struct Bench {
    ChipSpec chip = chip_preset("ideal");
    Matrix<float> w = normals(64, 48, 1, 1.0F);
    Matrix<float> x = normals(20, 64, 2, 0.4F);
    double output_step = 1.0;
    RegionIds ids{.seed = 11, .core = 3};

    ProgrammedRegion core() const {
        const auto column_us = column_conductances(w.view(), WeightScale::column, chip.device.g_max_us);
        return program_region(chip, w.view(),
                              {.column_us = column_us, .input_range = 1.0, .output_step = output_step}, ids);
    }
    Matrix<float> y(const ReadTime& time = {}) const {
        return literal_products(core(), x.view(), time, {.seed = 21, .first = 0});
    }
    Matrix<double> counts(const ReadTime& time = {}) const {
        return literal_counts(core(), x.view(), time, {.seed = 21, .first = 0}).counts;
    }
};

std::vector<double> differences(const Matrix<double>& a, const Matrix<double>& b) {
    std::vector<double> out;
    for (std::size_t i = 0; i < a.values().size(); ++i) out.push_back(a.values()[i] - b.values()[i]);
    return out;
}

TEST(Literal, WithoutErrorsIsTheDigitalProduct) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        for (const auto encoding : {InputEncoding::pulse_width, InputEncoding::bit_serial}) {
            Bench s;
            s.chip.core.read_mode = mode;
            s.chip.core.dac.encoding = encoding;
            const auto y = s.y();
            const auto exact = digital(s.x, s.w, 1.0);
            for (std::size_t i = 0; i < y.values().size(); ++i)
                EXPECT_NEAR(y.values()[i], exact.values()[i], 2e-6 * (1.0 + std::abs(exact.values()[i])));
        }
    }
}

TEST(Literal, EightBitOutputsAreTheRoundedDigitalProductOfAFullCore) {
    Bench s;
    s.w = normals(256, 256, 1, 1.0F);
    s.x = normals(8, 256, 2, 0.4F);
    s.output_step = 0.125;
    s.chip.core.affine.output_bits = 8;
    const auto y = s.y();
    const auto exact = digital(s.x, s.w, 1.0);
    int close_to_a_half = 0;
    int clipped = 0;
    for (std::size_t i = 0; i < y.values().size(); ++i) {
        const double steps = exact.values()[i] / s.output_step;
        if (std::abs(steps - std::floor(steps) - 0.5) < 1e-4) {
            ++close_to_a_half;
            continue;
        }
        ASSERT_EQ(y.values()[i] / s.output_step, std::clamp(std::nearbyint(steps), -127.0, 127.0)) << steps;
        clipped += std::abs(steps) > 127.0 ? 1 : 0;
    }
    EXPECT_LT(close_to_a_half, 10);
    EXPECT_GT(clipped, 0);
    EXPECT_LT(clipped, 200);
}

TEST(Literal, AGainMultipliesItsColumn) {
    Bench s;
    const auto without = s.counts();
    s.chip.core.adc.gain_sd = 0.05;
    const auto core = s.core();
    const auto with = s.counts();
    for (std::size_t v = 0; v < with.rows(); ++v) {
        for (std::size_t c = 0; c < with.cols(); ++c)
            EXPECT_NEAR(with(v, c), core.adc[c].gain * without(v, c), 1e-9 * (1.0 + std::abs(with(v, c))));
    }
}

TEST(Literal, AnOffsetCancelsInFourPhasesAndNotInOne) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        Bench s;
        s.chip.core.read_mode = mode;
        const auto without = s.counts();
        s.chip.core.adc.offset_sd_counts = 2.0;
        const auto core = s.core();
        const auto with = s.counts();
        for (std::size_t v = 0; v < with.rows(); ++v) {
            for (std::size_t c = 0; c < with.cols(); ++c) {
                const double expected = mode == ReadMode::four_phase ? 0.0 : core.adc[c].offset_counts;
                EXPECT_NEAR(with(v, c) - without(v, c), expected, 1e-9);
            }
        }
    }
}

TEST(Literal, ConverterNoiseAddsUpOverPhases) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        Bench s;
        s.x = normals(200, 64, 2, 0.4F);
        s.chip.core.read_mode = mode;
        const auto without = s.counts();
        s.chip.core.adc.noise_counts = 0.7;
        const auto m = moments(differences(s.counts(), without));  // n = 9600
        const double phases = mode == ReadMode::four_phase ? 4.0 : 1.0;
        EXPECT_NEAR(m.mean, 0.0, 5.0 * m.mean_error);
        EXPECT_NEAR(m.variance, phases * 0.49, 5.0 * m.variance_error);
    }
}

TEST(Literal, FlooringLosesHalfACountPerPhaseWhichCancels) {
    for (const auto rounding : {AdcRounding::floor, AdcRounding::round}) {
        Bench s;
        s.x = normals(200, 64, 2, 0.4F);
        const auto without = s.counts();
        s.chip.core.adc.rounding = rounding;
        const auto m = moments(differences(s.counts(), without));  // n = 9600
        EXPECT_NEAR(m.mean, 0.0, 5.0 * m.mean_error);
        EXPECT_NEAR(m.variance, 4.0 / 12.0, 5.0 * m.variance_error) << "four errors uniform over one count";
    }
}

TEST(Literal, PhasesSaturateOneByOne) {
    Bench s;
    const auto without = s.counts();
    s.chip.core.adc.max_count = 100;
    const auto with = s.counts();
    double largest = 0.0;
    for (const double c : with.values()) largest = std::max(largest, std::abs(c));
    EXPECT_LE(largest, 200.0) << "two phases of 100 count up, two down";
    EXPECT_NE(with, without);
    s.chip.core.read_mode = ReadMode::one_phase;
    const auto one = s.counts();
    for (std::size_t i = 0; i < one.values().size(); ++i)
        EXPECT_NEAR(one.values()[i], std::clamp(without.values()[i], -100.0, 100.0), 1e-9);
}

TEST(Literal, FreshReadNoiseIsTheSumOverDevices) {
    Bench s;
    s.chip.device = chip_preset("hermes-published").device;
    s.chip.device.programming_scale = 0.0;
    // 400 products of one input vector: the spread of each column over products.
    const auto one = normals(1, 64, 2, 0.4F);
    s.x = Matrix<float>(400, 64);
    for (std::size_t v = 0; v < 400; ++v) std::copy(one.row(0).begin(), one.row(0).end(), s.x.row(v).begin());
    const ReadTime time{.seconds = 0.0, .spacing_seconds = 1e-3};
    const auto core = s.core();
    const auto counts = s.counts(time);
    const auto plus = conductances_at(core.device, core.plus, time);
    const auto minus = conductances_at(core.device, core.minus, time);
    double ratio = 0.0;
    for (std::size_t c = 0; c < counts.cols(); ++c) {
        double variance = 0.0;
        for (std::size_t r = 0; r < 64; ++r) {
            const double d = std::nearbyint(std::clamp(double{one(0, r)}, -1.0, 1.0) * 127.0) / 127.0 / 0.115;
            const double p = plus.fresh_sd_us(r, c);
            const double n = minus.fresh_sd_us(r, c);
            variance += d * d * (p * p + n * n);
        }
        std::vector<double> column;
        for (std::size_t v = 0; v < counts.rows(); ++v) column.push_back(counts(v, c));
        ratio += moments(column).variance / variance / static_cast<double>(counts.cols());
    }
    // A variance of 400 normals has the relative error sqrt(2 / 399); averaged over 48 columns.
    EXPECT_NEAR(ratio, 1.0, 5.0 * std::sqrt(2.0 / 399.0 / 48.0));
}

TEST(Literal, PolarityMattersInOnePhaseOnly) {
    Bench s;
    s.x = normals(200, 64, 2, 0.4F);
    const auto without = s.counts();
    s.chip.core.polarity_asymmetry = 0.05;
    EXPECT_EQ(s.counts(), without);
    s.chip.core.read_mode = ReadMode::one_phase;
    const auto core = s.core();
    const auto with = s.counts();
    // Subtracting currents are off by 5 %: 0.05² times the sum of their squares, averaged over products
    // and columns.
    double variance = 0.0;
    std::vector<double> error;
    for (std::size_t v = 0; v < with.rows(); ++v) {
        for (std::size_t c = 0; c < with.cols(); ++c) {
            double expected = 0.0;
            for (std::size_t r = 0; r < 64; ++r) {
                const double d =
                    std::nearbyint(std::clamp(double{s.x(v, r)}, -1.0, 1.0) * 127.0) / 127.0 / 0.115;
                const double g = d > 0.0 ? core.minus.g_us(r, c) : core.plus.g_us(r, c);
                expected += 0.0025 * d * d * g * g;
            }
            variance += expected;
            error.push_back(with(v, c) - without(v, c));
        }
    }
    double measured = 0.0;
    for (const double e : error) measured += e * e;
    // 48 columns of 128 devices: the sum of squares is within 5 sqrt(2 / (48 * 64)) of its mean.
    EXPECT_NEAR(measured / variance, 1.0, 5.0 * std::sqrt(2.0 / (48.0 * 64.0)));
}

TEST(Literal, IrDropMatchesTheFormula) {
    Bench s;
    s.chip.core.rows = 2;
    s.w = Matrix<float>(2, 2);
    s.w(0, 0) = s.w(0, 1) = 1.0F;
    s.w(1, 0) = s.w(1, 1) = 1.0F;
    s.x = Matrix<float>(1, 2);
    s.x(0, 0) = s.x(0, 1) = 1.0F;
    s.chip.core.ir_drop = {.scale = 1.0, .wire_ohm = 1000.0};
    // a = 2 * 1000 * 41.4e-6 = 0.0828; c = 0.0828 (0.05 * 0.00685584 - 0.2 * 0.0828 + 0.5) = 0.040057218;
    // the far cell has the weight 3/4.
    const double expected = (41.4 - 0.040057218 * 20.7 * 0.75) / 0.115;
    const auto counts = s.counts();
    EXPECT_NEAR(counts(0, 0), expected, 1e-4);
    EXPECT_NEAR(counts(0, 1), expected, 1e-4) << "odd columns lose as much, from the other end";
}

TEST(Literal, DriftIsSeenAndCompensated) {
    Bench s;
    s.chip.device = chip_preset("hermes-published").device;
    s.chip.device.programming_scale = 0.0;
    s.chip.device.read_noise_scale = 0.0;
    // One input at a time: counts of single cells.
    s.x = Matrix<float>(64, 64);
    for (std::size_t i = 0; i < 64; ++i) s.x(i, i) = 1.0F;
    const ReadTime day{.seconds = 86400.0};
    auto core = s.core();
    const auto column_sums = [&](const ReadTime& time) {
        const auto counts = literal_counts(core, s.x.view(), time, {}).counts;
        std::vector<double> sums(counts.cols(), 0.0);
        for (std::size_t v = 0; v < 64; ++v) {
            for (std::size_t c = 0; c < counts.cols(); ++c)
                sums[c] += std::abs(counts(v, c)) * core.compensation[c];
        }
        return sums;
    };
    const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
    const auto fresh = column_sums({});
    const double left = sum(column_sums(day)) / sum(fresh);
    // The mean factor of a device is exp(-L mean + L² sd² / 2) for a normal exponent, L = ln(t / t_0).
    const double l = std::log(86700.0 / 300.0);
    double expected = 0.0;
    double total = 0.0;
    for (const auto* state : {&core.plus, &core.minus}) {
        for (const float g : state->g_us.values()) {
            const double sd = evaluate(core.device.drift_sd, g / 20.7);
            expected += g * std::exp(-l * evaluate(core.device.drift_mean, g / 20.7) + 0.5 * l * l * sd * sd);
            total += g;
        }
    }
    // A factor has a standard deviation of at most L times 0.04, averaged over 3072 devices.
    EXPECT_NEAR(left, expected / total, 5.0 * l * 0.04 / std::sqrt(3072.0));
    EXPECT_LT(left, 0.8);
    compensate_drift(DriftCompensation::global, day, core);
    EXPECT_NEAR(sum(column_sums(day)) / sum(fresh), 1.0, 1e-6);
    compensate_drift(DriftCompensation::column, day, core);
    EXPECT_THAT(column_sums(day), testing::Pointwise(testing::DoubleNear(1e-6 * sum(fresh)), fresh));
    compensate_drift(DriftCompensation::none, day, core);
    EXPECT_EQ(sum(column_sums(day)) / sum(fresh), left);
}

TEST(Literal, SameSeedSameBitsForAnySplitOfTheBatch) {
    Bench s;
    s.chip = chip_preset("hermes-published");
    s.output_step = 0.25;
    const auto core = s.core();
    const auto whole = literal_products(core, s.x.view(), {}, {.seed = 9, .first = 5});
    const auto part = literal_products(core, s.x.view().slice_rows(7, 4), {}, {.seed = 9, .first = 12});
    for (std::size_t v = 0; v < 4; ++v) {
        for (std::size_t c = 0; c < whole.cols(); ++c) EXPECT_EQ(part(v, c), whole(7 + v, c));
    }
    EXPECT_NE(literal_products(core, s.x.view(), {}, {.seed = 10, .first = 5}), whole);
    s.ids.core = 4;
    EXPECT_NE(literal_products(s.core(), s.x.view(), {}, {.seed = 9, .first = 5}), whole);
}

TEST(Literal, RefusesBadInput) {
    Bench s;
    EXPECT_THAT(error_of([&] { literal_products(s.core(), normals(1, 63, 1, 1.0F).view(), {}, {}); }),
                HasSubstr("bad_data: inputs of length 63; the region holds weights of 64 inputs"));
    auto x = normals(1, 64, 1, 1.0F);
    x(0, 5) = std::nanf("");
    EXPECT_THAT(error_of([&] { literal_products(s.core(), x.view(), {}, {}); }), HasSubstr("input 5: nan"));
    EXPECT_THAT(error_of([&] { literal_products(s.core(), s.x.view(), {.seconds = -1.0}, {}); }),
                HasSubstr("must be >= 0"));
    EXPECT_THAT(error_of([&] { literal_products(s.core(), s.x.view(), {}, {.first = 0xffffffffU}); }),
                HasSubstr("below 2^32"));
    s.w = normals(257, 10, 1, 1.0F);
    EXPECT_THAT(
        error_of([&] { s.core(); }),
        HasSubstr("bad_config: weights of 257 inputs and 10 outputs; a core has 256 rows and 256 columns"));
    s.w = normals(2, 2, 1, 1.0F);
    const std::vector<double> us(2, 20.0);
    const auto program = [&](const RegionScale& mapping, const RegionIds& ids) {
        return error_of([&] { program_region(s.chip, s.w.view(), mapping, ids); });
    };
    EXPECT_THAT(program({.column_us = us, .input_range = 0.0}, {}),
                HasSubstr("input range: 0; it must be > 0"));
    EXPECT_THAT(program({.column_us = us, .output_step = -1.0}, {}), HasSubstr("output step: -1"));
    EXPECT_THAT(program({.column_us = {20.0}}, {}), HasSubstr("1 column conductances for weights of 2"));
    EXPECT_THAT(program({.column_us = us}, {.core = 40'000}), HasSubstr("too many devices to number"));
}

}  // namespace
}  // namespace imka

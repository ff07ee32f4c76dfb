// The fast simulator compared with the literal one: same counts without noise, same distribution with
// noise.
#include "imka/chip/simulate/fast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/region.hpp"
#include "imka/chip/simulate/literal.hpp"
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

struct Bench {
    ChipSpec chip = chip_preset("ideal");
    Matrix<float> w = normals(24, 64, 1, 1.0F);
    Matrix<float> x = normals(300, 24, 2, 0.4F);
    double output_step = 1.0;
    ReadTime time{.seconds = 3600.0, .spacing_seconds = 1e-3};
    Exec exec{.threads = 1};
    std::uint64_t literal_seed = 22;

    ProgrammedRegion core() const {
        const auto us = column_conductances(w.view(), WeightScale::column, chip.device.g_max_us);
        RegionScale scale{.column_us = us, .input_range = 1.0, .output_step = output_step};
        // About three standard deviations of the products, different in every column.
        const std::size_t limits = chip.core.affine.limit.deviations > 0.0 ? us.size() : 0;
        for (std::size_t c = 0; c < limits; ++c)
            scale.output_limits.push_back((5.0 + 0.01 * static_cast<double>(c)) / output_step);
        return program_region(chip, w.view(), scale, {.seed = 11, .core = 3});
    }
    FastRegion fast() const { return prepare(core(), time); }
    Matrix<float> fast_y() const { return fast_products(fast(), x.view(), {.seed = 21, .first = 7}, exec); }
    Matrix<float> literal_y() const {
        return literal_products(core(), x.view(), time, {.seed = literal_seed, .first = 7});
    }
};

TEST(Fast, WithoutErrorsIsTheDigitalProductAndTheLiteralOne) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        for (const auto encoding : {InputEncoding::pulse_width, InputEncoding::bit_serial}) {
            Bench s;
            s.chip.core.read_mode = mode;
            s.chip.core.dac.encoding = encoding;
            const auto y = s.fast_y();
            const auto literal = s.literal_y();
            for (std::size_t v = 0; v < y.rows(); ++v) {
                for (std::size_t c = 0; c < y.cols(); ++c) {
                    double exact = 0.0;
                    double size = 0.0;
                    for (std::size_t i = 0; i < s.w.rows(); ++i) {
                        const double step =
                            std::nearbyint(std::clamp(double{s.x(v, i)}, -1.0, 1.0) * 127.0) / 127.0;
                        exact += step * s.w(i, c);
                        size += std::abs(step * s.w(i, c));
                    }
                    ASSERT_NEAR(y(v, c), exact, 2e-6 * size);
                    ASSERT_NEAR(y(v, c), literal(v, c), 2e-6 * size);
                }
            }
        }
    }
}

TEST(Fast, EightBitOutputsOfAFullCoreAreTheRoundedDigitalProduct) {
    Bench s;
    s.w = normals(256, 256, 1, 1.0F);
    s.x = normals(8, 256, 2, 0.4F);
    s.output_step = 0.125;
    s.chip.core.affine.output_bits = 8;
    const auto y = s.fast_y();
    EXPECT_EQ(s.fast().exact.charges.size(), 0U) << "a converter without errors is linear";
    std::size_t close_to_a_half = 0;
    for (std::size_t v = 0; v < y.rows(); ++v) {
        for (std::size_t c = 0; c < y.cols(); ++c) {
            double exact = 0.0;
            for (std::size_t i = 0; i < 256; ++i)
                exact += std::nearbyint(std::clamp(double{s.x(v, i)}, -1.0, 1.0) * 127.0) / 127.0 * s.w(i, c);
            const double steps = exact / s.output_step;
            if (std::abs(steps - std::floor(steps) - 0.5) < 1e-3) {
                ++close_to_a_half;
                continue;
            }
            ASSERT_EQ(y(v, c) / s.output_step, std::clamp(std::nearbyint(steps), -127.0, 127.0)) << steps;
        }
    }
    EXPECT_LT(close_to_a_half, 20U);
}

// A switch of the core.
struct Switch {
    const char* name;
    std::function<void(CoreSpec&)> set;
};

const std::vector<Switch>& switches() {
    static const std::vector<Switch> list = {
        {"gain", [](CoreSpec& c) { c.adc.gain_sd = 0.05; }},
        {"negative gain", [](CoreSpec& c) { c.adc.negative_gain_sd = 0.05; }},
        {"offset", [](CoreSpec& c) { c.adc.offset_sd_counts = 2.0; }},
        {"round", [](CoreSpec& c) { c.adc.rounding = AdcRounding::round; }},
        {"floor", [](CoreSpec& c) { c.adc.rounding = AdcRounding::floor; }},
        {"saturation", [](CoreSpec& c) { c.adc.max_count = 150; }},
        {"polarity", [](CoreSpec& c) { c.polarity_asymmetry = 0.1; }},
        {"IR drop", [](CoreSpec& c) { c.ir_drop = {.scale = 1.0, .wire_ohm = 5.0}; }},
        {"fp16", [](CoreSpec& c) { c.affine.fp16 = true; }},
        {"output bits", [](CoreSpec& c) { c.affine.output_bits = 8; }},
        {"truncated inputs", [](CoreSpec& c) { c.dac.rounding = InputRounding::truncate; }},
        {"jitter", [](CoreSpec& c) { c.dac.jitter_steps = 5.0; }},
        {"polarity error", [](CoreSpec& c) { c.adc.polarity_error_counts = 20.0; }},
        {"common offset", [](CoreSpec& c) { c.adc.offset_mean_counts = -3.0; }},
        {"output floor", [](CoreSpec& c) { c.adc.output_floor = true; }},
        {"product limit", [](CoreSpec& c) { c.affine.limit.deviations = 3.0; }},
        {"soft limit", [](CoreSpec& c) { c.affine.limit = {.deviations = 3.0, .shape = LimitShape::soft}; }},
        {"results rounded down",
         [](CoreSpec& c) {
             c.affine.output_bits = 7;
             c.affine.rounding = OutputRounding::floor;
         }},
    };
    return list;
}

// Share of outputs that differ by more than `step` times 1e-3; none may differ by more than `step`.
double share_that_differs(const Matrix<float>& a, const Matrix<float>& b, double step) {
    double differ = 0.0;
    for (std::size_t i = 0; i < a.values().size(); ++i) {
        const double d = std::abs(double{a.values()[i]} - double{b.values()[i]});
        EXPECT_LE(d, 1.01 * step);
        if (d > 1e-3 * step) differ += 1.0;
    }
    return differ / static_cast<double>(a.values().size());
}

// Programming errors and drift, no fresh noise in conversions: both simulators must give the same outputs,
// with jitter and comparator noise from the same numbers. Float sums may round differently, which changes
// a few outputs by one step or one count.
TEST(Fast, MatchesTheLiteralOneForEverySwitchAloneAndAllTogether) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        for (const auto encoding : {InputEncoding::pulse_width, InputEncoding::bit_serial}) {
            for (std::size_t k = 0; k <= switches().size() + 1; ++k) {
                Bench s;
                s.chip.device = chip_preset("hermes-published").device;
                s.x = normals(80, 24, 2, 0.4F);
                s.chip.device.read_noise_scale = 0.0;
                s.output_step = 0.125;
                s.literal_seed = 21;
                s.chip.core.read_mode = mode;
                s.chip.core.dac.encoding = encoding;
                const bool all = k == switches().size();
                for (std::size_t i = 0; i < switches().size(); ++i) {
                    if (i == k || all) switches()[i].set(s.chip.core);
                }
                SCOPED_TRACE(std::string(all                     ? "all"
                                         : k < switches().size() ? switches()[k].name
                                                                 : "none") +
                             " " + std::string(to_string(mode)) + " " + std::string(to_string(encoding)));
                // A count is worth at most the largest weight of a column / (20.7 / 0.115) inputs.
                const double step = std::max(s.output_step, 4.0 / 180.0);
                EXPECT_LT(share_that_differs(s.fast_y(), s.literal_y(), step), 0.002);
            }
        }
    }
}

TEST(Fast, InputsOfOneSignLeaveTwoPhasesWithOnlyOffsets) {
    for (const float sign : {1.0F, -1.0F}) {
        Bench s;
        for (auto& v : s.x.values()) v = sign * std::abs(v);
        s.chip.core.adc.rounding = AdcRounding::floor;
        s.chip.core.adc.offset_sd_counts = 3.0;
        EXPECT_LT(share_that_differs(s.fast_y(), s.literal_y(), 4.0 / 180.0), 0.002);
    }
}

TEST(Fast, SwitchesMatter) {
    for (const auto& one : switches()) {
        Bench s;
        s.chip.core.read_mode = ReadMode::one_phase;
        s.output_step = 0.125;
        const auto without = s.fast_y();
        one.set(s.chip.core);
        EXPECT_NE(s.fast_y(), without) << one.name;
    }
}

TEST(Fast, SaturatedConversionsAreCounted) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        Bench s;
        s.chip.core.read_mode = mode;
        s.chip.core.adc.max_count = 100;
        const auto fast = fast_counts(s.fast(), s.x.view(), {}, s.exec);
        const auto literal = literal_counts(s.core(), s.x.view(), s.time, {});
        EXPECT_EQ(fast.conversions, literal.conversions);
        EXPECT_GT(literal.saturated, 100U);
        EXPECT_NEAR(static_cast<double>(fast.saturated), static_cast<double>(literal.saturated), 2.0);
    }
}

TEST(Fast, DriftCompensationIsInTheOutputs) {
    Bench s;
    s.chip.device = chip_preset("hermes-published").device;
    s.chip.device.read_noise_scale = 0.0;
    auto core = s.core();
    compensate_drift(DriftCompensation::column, s.time, core);
    const auto y = fast_products(prepare(core, s.time), s.x.view(), {}, s.exec);
    EXPECT_LT(share_that_differs(y, literal_products(core, s.x.view(), s.time, {}), 0.02), 0.001);
    EXPECT_NE(y, s.fast_y());
}

// Many products of one vector: the differences are noise.
void repeat_one_vector(Bench& s, std::size_t products) {
    const auto one = normals(1, s.w.rows(), 5, 0.5F);
    s.x = Matrix<float>(products, s.w.rows());
    for (std::size_t v = 0; v < products; ++v) std::ranges::copy(one.row(0), s.x.row(v).begin());
}

std::vector<double> column(const Matrix<float>& y, std::size_t c) {
    std::vector<double> out;
    for (std::size_t v = 0; v < y.rows(); ++v) out.push_back(y(v, c));
    std::ranges::sort(out);
    return out;
}

// Largest difference of the two empirical distribution functions; both samples are sorted.
double kolmogorov_smirnov(const std::vector<double>& a, const std::vector<double>& b) {
    double largest = 0.0;
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < a.size() && j < b.size()) {
        const double at = std::min(a[i], b[j]);
        while (i < a.size() && a[i] == at) ++i;
        while (j < b.size() && b[j] == at) ++j;
        largest = std::max(largest, std::abs(static_cast<double>(i) / static_cast<double>(a.size()) -
                                             static_cast<double>(j) / static_cast<double>(b.size())));
    }
    return largest;
}

struct Agreement {
    double mean_ratio = 0.0;      // of the sums of |column means|
    double worst_mean = 0.0;      // difference of column means in standard errors
    double variance_ratio = 0.0;  // mean over columns
    double worst_ks = 0.0;        // times sqrt(n / 2)
};

Agreement compare(const Matrix<float>& fast, const Matrix<float>& literal) {
    Agreement out;
    double means[2] = {0.0, 0.0};
    double columns = 0.0;
    for (std::size_t c = 0; c < fast.cols(); ++c) {
        const auto a = column(fast, c);
        const auto b = column(literal, c);
        const auto ma = moments(a);
        const auto mb = moments(b);
        means[0] += std::abs(ma.mean);
        means[1] += std::abs(mb.mean);
        const double error = std::hypot(ma.mean_error, mb.mean_error);
        if (error == 0.0) continue;  // an output that is clipped in every product
        out.worst_mean = std::max(out.worst_mean, std::abs(ma.mean - mb.mean) / error);
        out.variance_ratio += ma.variance / mb.variance;
        columns += 1.0;
        out.worst_ks =
            std::max(out.worst_ks, kolmogorov_smirnov(a, b) * std::sqrt(static_cast<double>(a.size()) / 2.0));
    }
    EXPECT_GT(columns, 0.8 * static_cast<double>(fast.cols()));
    out.mean_ratio = means[0] / means[1];
    out.variance_ratio /= columns;
    return out;
}

// 64 columns of n products: the mean ratio of variances has the error sqrt(4 / (64 n)), 0.3 % for
// n = 6,000. A Kolmogorov-Smirnov statistic exceeds 2.6 sqrt(2 / n) with probability 2.7e-6.
void expect_same_law(const Bench& s) {
    const auto a = compare(s.fast_y(), s.literal_y());
    EXPECT_NEAR(a.mean_ratio, 1.0, 0.01);
    EXPECT_LT(a.worst_mean, 5.0);
    EXPECT_NEAR(a.variance_ratio, 1.0, 0.01);
    EXPECT_LT(a.worst_ks, 2.6);
}

TEST(FastLaw, FreshReadNoise) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        Bench s;
        repeat_one_vector(s, 6'000);
        s.chip.device = chip_preset("hermes-published").device;
        s.chip.core.read_mode = mode;
        EXPECT_EQ(s.fast().exact.charges.size(), 0U) << "only device noise: linear";
        expect_same_law(s);
    }
}

// Noise so large that many reads are clipped at 0: mean and variance match the truncated reads. The shape
// does not, since a sum of 24 of them is still skewed: the distribution functions differ by at most about
// 0.06.
TEST(FastLaw, TruncatedReadNoiseKeepsItsMoments) {
    Bench s;
    repeat_one_vector(s, 6'000);
    s.chip.device = chip_preset("hermes-published").device;
    s.chip.device.read_noise_scale = 12.0;
    const auto a = compare(s.fast_y(), s.literal_y());
    EXPECT_NEAR(a.mean_ratio, 1.0, 0.01);
    EXPECT_LT(a.worst_mean, 5.0);
    EXPECT_NEAR(a.variance_ratio, 1.0, 0.01);
    EXPECT_LT(a.worst_ks, 0.08 * std::sqrt(3'000.0));
}

TEST(FastLaw, ConverterNoiseThatPhasesClipAtZero) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        Bench s;
        repeat_one_vector(s, 6'000);
        // Every other column has weights of one sign: two of its phases carry only noise.
        for (std::size_t i = 0; i < s.w.rows(); ++i) {
            for (std::size_t c = 0; c < s.w.cols(); c += 2) s.w(i, c) = std::abs(s.w(i, c));
        }
        s.chip.core.read_mode = mode;
        s.chip.core.adc.noise_counts = 3.0;
        s.chip.core.adc.offset_sd_counts = 1.0;
        expect_same_law(s);
    }
}

// Jitter is drawn first, so charges of all columns move together. Checks the distribution of each column
// and of the sum of all columns, whose variance depends on the correlations.
TEST(FastLaw, JitterIsCommonToAllColumns) {
    for (const auto encoding : {InputEncoding::pulse_width, InputEncoding::bit_serial}) {
        Bench s;
        repeat_one_vector(s, 2'000);
        for (auto& w : s.w.values()) w = std::abs(w);
        s.chip.core.dac.encoding = encoding;
        s.chip.core.dac.jitter_steps = 12.0;
        s.chip.core.adc.noise_counts = 0.5;
        s.chip.core.adc.rounding = AdcRounding::floor;
        const auto fast = s.fast_y();
        const auto literal = s.literal_y();
        const auto a = compare(fast, literal);
        EXPECT_LT(a.worst_mean, 5.0);
        EXPECT_LT(a.worst_ks, 2.6);
        const auto sums = [](const Matrix<float>& y) {
            std::vector<double> out(y.rows(), 0.0);
            for (std::size_t v = 0; v < y.rows(); ++v)
                for (std::size_t c = 0; c < y.cols(); ++c) out[v] += y(v, c);
            return moments(out).variance;
        };
        double alone = 0.0;
        for (std::size_t c = 0; c < fast.cols(); ++c) alone += moments(column(fast, c)).variance;
        // A variance of 2,000 sums has an error of 3.2 %, the ratio of two 4.5 %.
        EXPECT_NEAR(sums(fast) / sums(literal), 1.0, 5 * 0.045);
        EXPECT_GT(sums(fast), 5.0 * alone);
    }
}

TEST(FastLaw, SmallCurrentsGetTheWrongSign) {
    Bench s;
    repeat_one_vector(s, 2'000);
    s.chip.device = chip_preset("hermes-published").device;
    s.chip.core.read_mode = ReadMode::one_phase;
    s.chip.core.adc.polarity_error_counts = 40.0;
    s.chip.core.adc.noise_counts = 1.0;
    const auto a = compare(s.fast_y(), s.literal_y());
    EXPECT_LT(a.worst_mean, 5.0);
    EXPECT_LT(a.worst_ks, 2.6);
}

TEST(FastLaw, LinearFoldIfPhasesAreClearOfZero) {
    Bench s;
    s.w = normals(48, 64, 1, 1.0F);
    repeat_one_vector(s, 6'000);
    s.chip.device = chip_preset("hermes-published").device;
    s.chip.device.g_floor_us = 10.0;
    s.chip.core.adc.noise_counts = 3.0;
    s.chip.core.adc.offset_sd_counts = 1.0;
    auto exact = s.fast();
    exact.linear = {};
    EXPECT_NE(fast_products(exact, s.x.view(), {.seed = 21, .first = 7}, s.exec), s.fast_y());
    expect_same_law(s);
}

TEST(FastLaw, TheWholeChipInFourPhases) {
    Bench s;
    repeat_one_vector(s, 6'000);
    s.chip = chip_preset("hermes-published");
    s.chip.core.adc.max_count = 150;
    s.output_step = 0.125;
    const auto counts = fast_counts(s.fast(), s.x.view(), {}, s.exec);
    EXPECT_GT(counts.saturated, counts.conversions / 100);
    expect_same_law(s);
}

TEST(FastLaw, TheWholeChipInOnePhase) {
    Bench s;
    repeat_one_vector(s, 6'000);
    s.chip = chip_preset("hermes-published");
    s.chip.core.read_mode = ReadMode::one_phase;
    s.chip.core.polarity_asymmetry = 0.1;
    s.chip.core.adc.negative_gain_sd = 0.05;
    s.chip.core.ir_drop = {.scale = 1.0, .wire_ohm = 5.0};
    s.output_step = 0.125;
    expect_same_law(s);
}

TEST(FastLaw, WiresInFourPhases) {
    Bench s;
    repeat_one_vector(s, 6'000);
    s.chip.device = chip_preset("hermes-published").device;
    s.chip.core.ir_drop = {.scale = 1.0, .wire_ohm = 10.0};
    expect_same_law(s);
}

TEST(FastLaw, BitByBitDevicesAreDrawn) {
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        Bench s;
        repeat_one_vector(s, 6'000);
        s.chip = chip_preset("hermes-published");
        s.chip.core.dac.encoding = InputEncoding::bit_serial;
        s.chip.core.read_mode = mode;
        s.output_step = 0.125;
        EXPECT_TRUE(s.fast().draws_devices);
        expect_same_law(s);
    }
}

// Vectors of very different size, so that both folds are used within a tile.
TEST(Fast, SameBitsForAnyThreadsAndBatches) {
    for (const bool linear : {true, false}) {
        Bench s;
        s.chip = chip_preset("hermes-published");
        s.w = normals(40, 50, 1, 1.0F);
        s.x = normals(700, 40, 2, 0.4F);
        for (std::size_t v = 0; v < 700; v += 3) {
            for (auto& value : s.x.row(v)) value *= 0.02F;
        }
        s.output_step = 0.01;
        s.chip.core.affine = {};
        if (linear) {
            s.chip.device.g_floor_us = 10.0;
            s.chip.core.adc.max_count = 0;
            s.chip.core.adc.rounding = AdcRounding::none;
        }
        const auto fast = s.fast();
        EXPECT_EQ(fast.linear.charges.empty(), !linear);
        EXPECT_FALSE(fast.exact.charges.empty());
        const auto whole = fast_products(fast, s.x.view(), {.seed = 4, .first = 100}, {.threads = 1});
        EXPECT_EQ(fast_products(fast, s.x.view(), {.seed = 4, .first = 100}, {.threads = 3}), whole);
        EXPECT_NE(fast_products(fast, s.x.view(), {.seed = 5, .first = 100}, {.threads = 1}), whole);
        std::size_t first = 0;
        for (const std::size_t rows : {1U, 7U, 255U, 256U, 181U}) {
            const auto part = fast_products(fast, s.x.view().slice_rows(first, rows),
                                            {.seed = 4, .first = 100 + first}, {});
            for (std::size_t v = 0; v < rows; ++v) {
                for (std::size_t c = 0; c < 50; ++c) ASSERT_EQ(part(v, c), whole(first + v, c)) << first + v;
            }
            first += rows;
        }
        EXPECT_EQ(first, 700U);
    }
}

TEST(Fast, NoiseOfProductsAndColumnsIsIndependent) {
    Bench s;
    repeat_one_vector(s, 2'000);
    s.chip.core.read_mode = ReadMode::one_phase;
    s.chip.core.adc.noise_counts = 1.0;
    const auto counts = fast_counts(s.fast(), s.x.view(), {}, s.exec).counts;
    double columns = 0.0;
    double products = 0.0;
    double squares = 0.0;
    Matrix<double> e(200, 64);
    for (std::size_t c = 0; c < 64; ++c) {
        const double mean = moments(column(counts, c)).mean;
        for (std::size_t v = 0; v < 200; ++v) e(v, c) = double{counts(v, c)} - mean;
    }
    for (std::size_t v = 0; v + 1 < 200; ++v) {
        for (std::size_t c = 0; c + 1 < 64; ++c) {
            columns += e(v, c) * e(v, c + 1);
            products += e(v, c) * e(v + 1, c);
            squares += e(v, c) * e(v, c);
        }
    }
    // 12,537 products of independent numbers.
    EXPECT_LT(std::abs(columns / squares), 5.0 / std::sqrt(12'537.0));
    EXPECT_LT(std::abs(products / squares), 5.0 / std::sqrt(12'537.0));
}

TEST(Fast, RefusesBadInput) {
    Bench s;
    const auto fast = s.fast();
    EXPECT_THAT(error_of([&] { fast_products(fast, normals(1, 23, 1, 1.0F).view(), {}, {}); }),
                HasSubstr("bad_data: inputs of length 23; the region holds weights of 24 inputs"));
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        auto x = normals(300, 24, 1, 1.0F);
        x(299, 5) = bad;
        EXPECT_THAT(error_of([&] { fast_products(fast, x.view(), {}, {}); }), HasSubstr("input 5: "));
    }
    EXPECT_THAT(error_of([&] { fast_products(fast, s.x.view(), {.first = 0xffffffffU}, {}); }),
                HasSubstr("below 2^32"));
    EXPECT_THAT(error_of([&] { prepare(s.core(), {.seconds = -1.0}); }), HasSubstr("must be >= 0"));
    EXPECT_EQ(fast_products(fast, Matrix<float>(0, 24).view(), {}, {}).rows(), 0U);
}

}  // namespace
}  // namespace imka

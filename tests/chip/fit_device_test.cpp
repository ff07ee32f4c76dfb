// Device models recovered from reads of a known model.
#include "imka/chip/device/fit_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "imka/base/random.hpp"
#include "imka/chip/device/device.hpp"
#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

// Reads t_0 after programming, without read noise, of targets spread evenly from 0 to g_max.
DeviceReads reads_of(const DeviceModel& model, std::size_t count, std::uint64_t seed) {
    Matrix<float> target(1, count);
    for (std::size_t i = 0; i < count; ++i)
        target(0, i) =
            static_cast<float>(model.g_max_us * static_cast<double>(i) / static_cast<double>(count - 1));
    const auto state = program_devices(model, target.view(), {.seed = seed, .stride = count});
    DeviceReads reads;
    for (std::size_t i = 0; i < count; ++i) {
        reads.target_us.push_back(target(0, i));
        reads.read_us.push_back(state.g_us(0, i));
    }
    return reads;
}

std::vector<double> published() {
    return chip_preset("hermes-published").device.programming_error_us.pieces[0].coefficients;
}

TEST(FitDevice, RecoversThePublishedCurveWithinItsStatedErrors) {
    const auto fit = fit_device(reads_of(chip_preset("hermes-published").device, 20000, 3), {});
    const auto truth = published();
    ASSERT_EQ(fit.sigma_us.size(), truth.size());
    for (std::size_t k = 0; k < truth.size(); ++k) {
        EXPECT_NEAR(fit.sigma_us[k].value, truth[k], 5 * fit.sigma_us[k].error) << k;
        EXPECT_GT(fit.sigma_us[k].error, 0.0);
    }
    // Coefficients of a polynomial are correlated; the curve itself is known much better.
    for (const double u : {0.1, 0.3, 0.5, 0.7, 0.9}) {
        double curve = 0.0;
        double right = 0.0;
        for (std::size_t k = truth.size(); k-- > 0;) {
            curve = curve * u + fit.sigma_us[k].value;
            right = right * u + truth[k];
        }
        EXPECT_NEAR(curve, right, 0.03 * right) << u;
    }
    EXPECT_NEAR(fit.offset_us.value, 0.0, 5 * fit.offset_us.error);
    EXPECT_GT(fit.at_zero, 0U);
    EXPECT_NEAR(ks_limit(400), 0.0814, 2e-4) << "1 % point of the distance in printed tables: 1.628";
    // 1.95 / sqrt(n): exceeded once in a thousand.
    EXPECT_LT(fit.ks_distance, 1.95 / std::sqrt(static_cast<double>(fit.ks_reads)));
    EXPECT_LT(fit.chi2_per_freedom, 1.0 + 5 * std::sqrt(2.0 / static_cast<double>(fit.freedom)));
}

TEST(FitDevice, StatedErrorsMatchRepeatedFits) {
    // 60 fits: the standard deviation of their results is known within 9 %.
    constexpr int kFits = 60;
    std::vector<double> values;
    double stated = 0.0;
    for (std::uint64_t f = 0; f < kFits; ++f) {
        const auto fit =
            fit_device(reads_of(chip_preset("hermes-published").device, 1000, 100 + f), {.degree = 1});
        values.push_back(fit.sigma_us[1].value);
        stated += fit.sigma_us[1].error / kFits;
    }
    double mean = 0.0;
    for (const double v : values) mean += v / kFits;
    double variance = 0.0;
    for (const double v : values) variance += (v - mean) * (v - mean) / (kFits - 1);
    // A line is not the correct curve here, so the information matrix is not exact either.
    EXPECT_NEAR(std::sqrt(variance) / stated, 1.0, 5 * 0.09);
}

TEST(FitDevice, ReadsAtZeroDoNotLowerTheErrorOfSmallTargets) {
    // A constant error of 1 uS: half the reads of targets near 0 are clipped to 0.
    DeviceModel model;
    model.programming_error_us = {.pieces = {{.coefficients = {1.0}}}};
    model.g_max_us = 2.0;
    model.programming_reference_g_max_us = 2.0;
    const auto fit = fit_device(reads_of(model, 5000, 4), {.degree = 0});
    EXPECT_NEAR(fit.sigma_us[0].value, 1.0, 5 * fit.sigma_us[0].error);
    EXPECT_NEAR(fit.offset_us.value, 0.0, 5 * fit.offset_us.error);
    EXPECT_GT(fit.at_zero, 700U);
}

TEST(FitDevice, FindsTheMeanOffset) {
    auto reads = reads_of(chip_preset("hermes-published").device, 5000, 5);
    for (auto& read : reads.read_us) {
        if (read > 0.0) read += 0.4;
    }
    const auto fit = fit_device(reads, {});
    EXPECT_GT(fit.offset_us.value, 0.25);
    EXPECT_LT(fit.offset_us.value, 0.45);
}

TEST(FitDevice, KeepsTheConstantAboveZero) {
    // A standard deviation that grows with the square, observed for u >= 0.25: the best line would start
    // below 0.
    DeviceModel model;
    model.programming_error_us = {.pieces = {{.coefficients = {0.0, 0.0, 2.0}}}};
    auto reads = reads_of(model, 4000, 6);
    reads.target_us.erase(reads.target_us.begin(), reads.target_us.begin() + 1000);
    reads.read_us.erase(reads.read_us.begin(), reads.read_us.begin() + 1000);
    const auto fit = fit_device(reads, {.degree = 1});
    EXPECT_EQ(fit.sigma_us[0].value, 0.0);
    EXPECT_EQ(fit.sigma_us[0].error, 0.0);
    EXPECT_GT(fit.sigma_us[1].value, 0.0);
    validate(with_fit(model, fit));
}

// Reads of the same devices at several times, with relative noise per read.
DeviceReads drifting(std::size_t devices, const std::vector<double>& times, double noise) {
    DeviceReads reads;
    for (std::size_t t = 0; t < times.size(); ++t) {
        for (std::size_t d = 0; d < devices; ++d) {
            const double target = 5.0 + 15.0 * static_cast<double>(d) / static_cast<double>(devices);
            const double nu = 0.06 + 0.01 * normal(7, Stream::test, d);
            const double start = target + 0.5 * normal(8, Stream::test, d);
            const double z = normal(9, Stream::test, t * devices + d);
            reads.target_us.push_back(target);
            reads.seconds.push_back(times[t]);
            reads.read_us.push_back(start * std::pow(times[t] / times[0], -nu) * (1.0 + noise * z));
        }
    }
    return reads;
}

TEST(FitDevice, FindsDriftAndCorrectsItsDeviationForTheNoiseOfReads) {
    const auto reads = drifting(3000, {300.0, 3000.0, 30000.0, 300000.0}, 0.05);
    const auto fit = fit_device(reads, {.degree = 1});
    ASSERT_TRUE(fit.drift);
    EXPECT_EQ(fit.drift->devices, 3000U);
    EXPECT_EQ(fit.drift->times, 4U);
    EXPECT_TRUE(fit.drift->noise_removed);
    EXPECT_NEAR(fit.drift->mean.value, 0.06, 5 * fit.drift->mean.error);
    EXPECT_NEAR(fit.drift->sd.value, 0.01, 5 * fit.drift->sd.error);
    EXPECT_LT(fit.drift->sd.error, 0.0005);
    const auto model = with_fit(chip_preset("hermes-published").device, fit);
    validate(model);
    EXPECT_EQ(model.t_0_seconds, 300.0);
}

TEST(FitDevice, NamedDevicesMayComeInAnyOrder) {
    auto reads = drifting(200, {300.0, 3000.0, 30000.0}, 0.0);
    const auto in_order = fit_device(reads, {.degree = 1}).drift->mean.value;
    for (std::size_t i = 0; i < reads.target_us.size(); ++i) reads.device.push_back(i % 200);
    const auto swap = [&](std::size_t a, std::size_t b) {
        std::swap(reads.target_us[a], reads.target_us[b]);
        std::swap(reads.read_us[a], reads.read_us[b]);
        std::swap(reads.device[a], reads.device[b]);
    };
    for (std::size_t i = 0; i < 100; ++i) swap(200 + i, 399 - i);
    EXPECT_NEAR(fit_device(reads, {.degree = 1}).drift->mean.value, in_order, 1e-12);
    reads.device.clear();
    EXPECT_THAT(
        error_of([&] { fit_device(reads, {.degree = 1}); }),
        testing::AllOf(testing::StartsWith("bad_data: "), testing::HasSubstr("the same device, has")));
}

TEST(FitDevice, RejectsBadReads) {
    const auto good = reads_of(chip_preset("hermes-published").device, 100, 3);
    const auto fails = [](const DeviceReads& reads, const std::string& message) {
        EXPECT_THAT(error_of([&] { fit_device(reads, {}); }),
                    testing::AllOf(testing::StartsWith("bad_data: "), testing::HasSubstr(message)));
    };
    auto bad = good;
    bad.read_us[7] = std::numeric_limits<double>::quiet_NaN();
    fails(bad, "read 8 is nan");
    bad = good;
    bad.target_us[3] = -1.0;
    fails(bad, "target 4 is -1 uS; it must be >= 0");
    bad = good;
    bad.target_us.pop_back();
    fails(bad, "differ in number");
    fails({}, "no reads");
    bad = good;
    bad.target_us.resize(49);
    bad.read_us.resize(49);
    fails(bad, "49 reads at the first time; a curve of degree 3 needs 50");
    bad = good;
    std::fill(bad.target_us.begin(), bad.target_us.end(), 5.0);
    fails(bad, "1 different targets; a curve of degree 3 needs 4");
    bad = good;
    bad.read_us = bad.target_us;
    fails(bad, "every read equals its target");
    bad = good;
    bad.seconds.assign(100, 0.0);
    fails(bad, "time 1 is 0 s; it must be > 0");
    bad.seconds.assign(100, 1.0);
    bad.seconds.back() = 2.0;
    fails(bad, "each time must list the same devices");
    EXPECT_THAT(error_of([&] { fit_device(good, {.degree = 4}); }),
                testing::AllOf(testing::StartsWith("bad_config: "), testing::HasSubstr("degree: 4")));
    EXPECT_THAT(error_of([&] { fit_device(good, {.bins = 1}); }),
                testing::HasSubstr("bins: 1 is out of range"));
    EXPECT_THAT(error_of([&] { fit_device(good, {.g_max_us = -1.0}); }), testing::HasSubstr("g_max: -1"));
    EXPECT_THAT(error_of([&] { fit_device(good, {.g_max_us = 10.0}); }),
                testing::AllOf(testing::StartsWith("bad_data: "), testing::HasSubstr("at most g_max")));
}

}  // namespace
}  // namespace imka

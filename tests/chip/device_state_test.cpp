// Programmed devices: moments of the draws, time, stuck devices, reproducibility.
#include "imka/chip/device/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"
#include "support/moments.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

constexpr std::size_t kSize = 256;  // 65 536 devices
constexpr DeviceIds kIds{.seed = 7, .first = 0, .stride = kSize};

Matrix<float> all(float value) {
    Matrix<float> m(kSize, kSize);
    std::fill(m.values().begin(), m.values().end(), value);
    return m;
}

std::vector<double> doubles(const Matrix<float>& m) {
    return {m.values().begin(), m.values().end()};
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
    const auto mx = moments(x);
    const auto my = moments(y);
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - mx.mean) * (y[i] - my.mean);
    return sum / (mx.n - 1.0) / std::sqrt(mx.variance * my.variance);
}

double share(const Matrix<float>& m, float value) {
    return static_cast<double>(std::count(m.values().begin(), m.values().end(), value)) /
           static_cast<double>(m.values().size());
}

TEST(DeviceState, ErrorHasTheMeanAndSpreadOfTheModel) {
    for (const auto& name : chip_names()) {
        const auto m = chip_preset(name).device;
        const double target = 0.6 * m.g_max_us;
        const auto state = program_devices(m, all(static_cast<float>(target)).view(), kIds);
        const auto g = moments(doubles(state.g_us));
        const double sigma = programming_sigma_us(m, target);
        EXPECT_NEAR(g.mean, target, 5.0 * g.mean_error + 1e-5) << name;
        EXPECT_NEAR(g.variance, sigma * sigma, 5.0 * g.variance_error + 1e-9) << name;
    }
}

TEST(DeviceState, ExponentHasTheMeanAndSpreadOfTheModel) {
    const auto m = chip_preset("hermes-published").device;
    const auto state = program_devices(m, all(0.5F * 20.7F).view(), kIds);
    const auto nu = moments(doubles(state.nu));
    // At u = 0.5: 0.0736 - 0.0063 - 0.0109 and 0.0073 + 0.00465 - 0.00295; six standard deviations from 0.
    EXPECT_NEAR(nu.mean, 0.0564, 5.0 * nu.mean_error);
    EXPECT_NEAR(std::sqrt(nu.variance), 0.0090, 5.0 * nu.variance_error / (2.0 * 0.0090));
    EXPECT_NEAR(correlation(doubles(state.g_us), doubles(state.nu)), 0.0, 5.0 / 256.0);
}

TEST(DeviceState, TargetsOfZeroAreHalfANormal) {
    const auto m = chip_preset("hermes-published").device;
    const auto state = program_devices(m, all(0.0F).view(), kIds);
    EXPECT_NEAR(share(state.g_us, 0.0F), 0.5, 5.0 * 0.5 / 256.0);
    const auto g = moments(doubles(state.g_us));
    EXPECT_NEAR(g.mean, 0.16603222 / std::sqrt(2.0 * M_PI), 5.0 * g.mean_error) << "E max(0, s N)";

    const auto afm = chip_preset("hermes-afm").device;
    const auto below = program_devices(afm, all(0.06F).view(), kIds);
    EXPECT_EQ(share(below.g_us, 0.0F), 1.0) << "a target below the threshold becomes exactly 0";
}

TEST(DeviceState, CorrelationMatchesTheModel) {
    auto m = chip_preset("hermes-published").device;
    for (const double rho : {0.5, 1.0}) {
        m.programming_drift_correlation = rho;
        const auto state = program_devices(m, all(0.5F * 20.7F).view(), kIds);
        const double measured = correlation(doubles(state.g_us), doubles(state.nu));
        // The standard error of a correlation is (1 - rho²) / sqrt(n); low conductance comes with strong
        // drift.
        EXPECT_NEAR(measured, -rho, 5.0 * (1.0 - rho * rho) / 256.0 + 1e-5) << rho;
        const auto nu = moments(doubles(state.nu));
        EXPECT_NEAR(std::sqrt(nu.variance), 0.0090, 5.0 * nu.variance_error / (2.0 * 0.0090)) << rho;
    }
}

TEST(DeviceState, StuckDevicesLimitTheRangeOfTheOthers) {
    auto m = chip_preset("ideal").device;
    m.g_max_us = 20.0;
    m.stuck_at_reset_probability = 0.1;
    m.stuck_at_max_probability = 0.2;
    // One device per polarity: stuck at 0 or at g_max.
    const auto one = program_devices(m, all(5.0F).view(), kIds);
    EXPECT_NEAR(share(one.g_us, 0.0F), 0.1, 5.0 * 0.3 / 256.0);
    EXPECT_NEAR(share(one.g_us, 20.0F), 0.2, 5.0 * 0.4 / 256.0);
    EXPECT_NEAR(share(one.g_us, 5.0F), 0.7, 5.0 * 0.46 / 256.0);
    // Two of 10 uS each: 15 uS needs both; one stuck at 0 leaves 10, one at its maximum still allows 15.
    m.devices_per_polarity = 2;
    const auto two = program_devices(m, all(15.0F).view(), kIds);
    EXPECT_NEAR(share(two.g_us, 0.0F), 0.01, 5.0 * 0.1 / 256.0) << "both stuck at 0";
    EXPECT_NEAR(share(two.g_us, 20.0F), 0.04, 5.0 * 0.2 / 256.0) << "both stuck at the maximum";
    EXPECT_NEAR(share(two.g_us, 10.0F), 2.0 * 0.1 * 0.7 + 2.0 * 0.1 * 0.2, 5.0 * 0.39 / 256.0);
    EXPECT_NEAR(share(two.g_us, 15.0F), 0.7 * 0.7 + 2.0 * 0.2 * 0.7, 5.0 * 0.43 / 256.0);
}

TEST(DeviceState, FloorAndCeilingHold) {
    auto m = chip_preset("hermes-published").device;
    m.g_floor_us = 1.0;
    m.g_ceiling_us = 11.0;
    const auto low = program_devices(m, all(0.0F).view(), kIds);
    EXPECT_GE(*std::min_element(low.g_us.values().begin(), low.g_us.values().end()), 1.0F);
    const auto high = program_devices(m, all(10.35F).view(), kIds);
    EXPECT_EQ(*std::max_element(high.g_us.values().begin(), high.g_us.values().end()), 11.0F);
    // 0.65 uS above the target is 0.655 of the standard deviation of 0.9926 uS.
    EXPECT_NEAR(share(high.g_us, 11.0F), 0.5 * std::erfc(0.65 / 0.9926 / std::sqrt(2.0)), 5.0 * 0.44 / 256.0);
}

TEST(DeviceState, DriftLowersTheMeanByItsFactor) {
    auto m = chip_preset("hermes-published").device;
    m.programming_scale = 0.0;
    m.read_noise_scale = 0.0;
    const auto state = program_devices(m, all(0.5F * 20.7F).view(), kIds);
    // E exp(-L nu) = exp(-L mean + L² sd² / 2) for a normal nu, L = ln(t / t_0).
    for (const double seconds : {3600.0, 86400.0}) {
        const double l = std::log((seconds + 300.0) / 300.0);
        const double expected = std::exp(-0.0564 * l + 0.5 * l * l * 0.0090 * 0.0090);
        const auto now = conductances_at(m, state, {.seconds = seconds});
        const auto g = moments(doubles(now.g_us));
        EXPECT_NEAR(g.mean / 10.35, expected, 5.0 * g.mean_error / 10.35 + 1e-6) << seconds;
        EXPECT_EQ(share(now.fresh_sd_us, 0.0F), 1.0);
    }
    EXPECT_EQ(conductances_at(m, state, {.seconds = 0.0}).g_us, state.g_us);
}

TEST(DeviceState, ReadNoiseHasItsFrozenAndFreshSize) {
    auto m = chip_preset("hermes-published").device;
    m.programming_scale = 0.0;
    const auto state = program_devices(m, all(10.35F).view(), kIds);
    const auto now = conductances_at(m, state, {.seconds = 0.0, .spacing_seconds = 1e-3});
    // Q_s(0.5) = 0.0123 + 0.01055 - 0.007 + 0.0008625; ln of (300 s, 1 ms) over 1024 ns: 19.4955, 6.8845.
    constexpr double kQ = 0.0167125;
    const auto g = moments(doubles(now.g_us));
    EXPECT_NEAR(g.mean, 10.35, 5.0 * g.mean_error);
    const double frozen = 10.35 * kQ * std::sqrt(19.4955 - 6.8845);
    EXPECT_NEAR(g.variance, frozen * frozen, 5.0 * g.variance_error);
    EXPECT_NEAR(now.fresh_sd_us(3, 5), 10.35 * kQ * std::sqrt(6.8845), 1e-5);
    EXPECT_EQ(conductances_at(m, state, {.seconds = 0.0, .spacing_seconds = 1e-3}).g_us, now.g_us)
        << "frozen noise is the same in every read";
}

TEST(DeviceState, APartAloneEqualsThePartOfTheWhole) {
    const auto m = chip_preset("hermes-published").device;
    Matrix<float> target(8, 6);
    for (std::size_t i = 0; i < 48; ++i) target.values()[i] = 0.4F * static_cast<float>(i);
    const DeviceIds ids{.seed = 3, .first = 100, .stride = 9};
    const auto whole = program_devices(m, target.view(), ids);
    const auto part = program_devices(m, target.view().slice_rows(5, 2).slice_cols(1, 4),
                                      {.seed = 3, .first = device_index(ids, 5, 1), .stride = 9});
    const auto old = conductances_at(m, whole, {.seconds = 100.0});
    const auto old_part = conductances_at(m, part, {.seconds = 100.0});
    for (std::size_t r = 0; r < 2; ++r) {
        for (std::size_t c = 0; c < 4; ++c) {
            EXPECT_EQ(part.g_us(r, c), whole.g_us(5 + r, 1 + c));
            EXPECT_EQ(part.nu(r, c), whole.nu(5 + r, 1 + c));
            EXPECT_EQ(old_part.g_us(r, c), old.g_us(5 + r, 1 + c));
        }
    }
    const auto other = program_devices(m, target.view(), {.seed = 4, .first = 100, .stride = 9});
    EXPECT_NE(other.g_us, whole.g_us);
}

TEST(DeviceState, RefusesTargetsOutOfRange) {
    const auto m = chip_preset("hermes-published").device;
    for (const float wrong : {-0.1F, 20.8F, std::nanf(""), INFINITY}) {
        Matrix<float> target(2, 2);
        target(1, 0) = wrong;
        EXPECT_THAT(error_of([&] { program_devices(m, target.view(), kIds); }),
                    HasSubstr("bad_config: target of row 1, column 0: "));
    }
    const auto state = program_devices(m, all(1.0F).view(), kIds);
    EXPECT_THAT(error_of([&] { conductances_at(m, state, {.seconds = -2.0}); }),
                HasSubstr("it must be >= 0"));
}

}  // namespace
}  // namespace imka

// Device models: curves of the presets compared with numbers computed elsewhere, and invalid models.
#include "imka/chip/device/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

struct Row {
    double u;
    double od, td, afm_td, pcm;  // programming error, % of g_max
    double nu_mean, nu_sd_od, nu_sd_td;
    double q_od, q_td;
};
// Evaluated from the published formulas in a separate program, rounded to the digits given here.
constexpr Row kTable[] = {
    {0.1, 3.57, 2.69, 3.12, 1.79, 0.072, 0.025, 0.021, 0.022, 0.020},
    {0.2, 5.23, 3.90, 4.20, 2.44, 0.069, 0.017, 0.013, 0.019, 0.015},
    {0.3, 6.56, 4.56, 4.66, 2.99, 0.066, 0.012, 0.009, 0.021, 0.016},
    {0.5, 8.36, 4.79, 4.69, 3.81, 0.056, 0.012, 0.009, 0.022, 0.017},
    {0.7, 9.29, 4.45, 5.10, 4.26, 0.043, 0.010, 0.008, 0.019, 0.016},
    {1.0, 9.73, 5.28, 10.7, 4.22, 0.017, 0.006, 0.005, 0.017, 0.012},
};

double percent_error(const DeviceModel& m, double u) {
    return 100.0 * programming_sigma_us(m, u * m.g_max_us) / m.g_max_us;
}

TEST(Device, ProgrammingErrorsAreThePublishedOnes) {
    const auto od = chip_preset("hermes-od").device;
    const auto td = chip_preset("hermes-published").device;
    const auto pcm = chip_preset("pcm-like").device;
    for (const auto& row : kTable) {
        EXPECT_NEAR(percent_error(od, row.u), row.od, 0.00501) << row.u;
        EXPECT_NEAR(percent_error(td, row.u), row.td, 0.00501) << row.u;
        EXPECT_NEAR(percent_error(pcm, row.u), row.pcm, 0.00501) << row.u;
    }
    EXPECT_NEAR(percent_error(od, 0.0), 1.52, 0.00501);
    EXPECT_NEAR(percent_error(td, 0.0), 0.80, 0.00501);
    EXPECT_NEAR(percent_error(pcm, 0.0), 1.05, 0.00501);
}

TEST(Device, DriftAndReadNoiseAreThePublishedOnes) {
    const auto od = chip_preset("hermes-od").device;
    const auto td = chip_preset("hermes-published").device;
    for (const auto& row : kTable) {
        EXPECT_NEAR(evaluate(td.drift_mean, row.u), row.nu_mean, 0.000501) << row.u;
        EXPECT_NEAR(evaluate(od.drift_mean, row.u), row.nu_mean, 0.000501) << row.u;
        EXPECT_NEAR(evaluate(od.drift_sd, row.u), row.nu_sd_od, 0.000501) << row.u;
        EXPECT_NEAR(evaluate(td.drift_sd, row.u), row.nu_sd_td, 0.000501) << row.u;
        EXPECT_NEAR(read_noise_q(od, row.u * od.g_max_us), row.q_od, 0.000501) << row.u;
        EXPECT_NEAR(read_noise_q(td, row.u * td.g_max_us), row.q_td, 0.000501) << row.u;
    }
    for (const auto& m : {od, td}) {
        EXPECT_DOUBLE_EQ(evaluate(m.drift_mean, 0.0), 0.13);
        EXPECT_DOUBLE_EQ(evaluate(m.drift_sd, 0.0), 0.04);
        EXPECT_DOUBLE_EQ(read_noise_q(m, 0.0), 0.04);
    }
    const auto pcm = chip_preset("pcm-like").device;
    EXPECT_DOUBLE_EQ(read_noise_q(pcm, 0.0), 0.2);
    EXPECT_DOUBLE_EQ(read_noise_q(pcm, 25.0), 0.0088);
    EXPECT_NEAR(evaluate(pcm.drift_mean, 0.05), -0.0155 * std::log(0.05) + 0.0244, 1e-15);
    EXPECT_DOUBLE_EQ(evaluate(pcm.drift_mean, 0.001), 0.1);
    EXPECT_DOUBLE_EQ(evaluate(pcm.drift_mean, 1.0), 0.049);
}

TEST(Device, ErrorsInCountsBecomeMicrosiemens) {
    const auto afm = chip_preset("hermes-afm").device;
    // The table has the two-device fit; below 52.5 of 180 counts (u = 0.29) the one-device fit applies.
    for (const auto& row : kTable) {
        if (row.u > 52.5 / 180.0) {
            EXPECT_NEAR(percent_error(afm, row.u), row.afm_td, row.u == 1.0 ? 0.0501 : 0.00501) << row.u;
        }
    }
    EXPECT_NEAR(percent_error(afm, 0.1), 3.10, 0.00501);
    EXPECT_NEAR(percent_error(afm, 0.2), 4.00, 0.00501);
    EXPECT_EQ(programming_sigma_us(afm, 0.599 * 0.115), 0.0) << "below the threshold nothing is programmed";
    EXPECT_NEAR(programming_sigma_us(afm, 0.601 * 0.115),
                0.115 * (2.57974107 + 0.22419686 * 0.601 - 3.715812e-3 * 0.601 * 0.601), 1e-5);
}

TEST(Device, ResistiveMemoryHasItsOwnFit) {
    const auto rram = chip_preset("rram-wan").device;
    // 1.536e-4 g³ - 1.167e-2 g² + 0.2374 g + 1.053, evaluated in a separate program.
    EXPECT_NEAR(programming_sigma_us(rram, 0.0), 1.053, 1e-12);
    EXPECT_NEAR(programming_sigma_us(rram, 0.25 * 39.26), 2.404092530512400, 1e-12);
    EXPECT_NEAR(programming_sigma_us(rram, 39.26), 1.680641428793600, 1e-12);
    EXPECT_EQ(read_noise_q(rram, 10.0), 0.0);
}

TEST(Device, ALowerRangeHasASmallerError) {
    auto m = chip_preset("hermes-published").device;
    const double whole = programming_sigma_us(m, 0.5 * m.g_max_us);
    m.g_max_us = 10.35;
    EXPECT_NEAR(programming_sigma_us(m, 0.5 * m.g_max_us), whole / 2.0, 1e-15);
    m.programming_scale = 0.6;
    EXPECT_NEAR(programming_sigma_us(m, 0.5 * m.g_max_us), 0.6 * whole / 2.0, 1e-15);
}

TEST(Drift, MeanFactorsAreThePublishedOnes) {
    const auto m = chip_preset("hermes-published").device;
    constexpr double kHour = 3600.0;
    constexpr double kDay = 86400.0;
    const auto factor = [&](double u, double seconds) {
        return drift_factor(drift_exponent(m, u * m.g_max_us, 0.0), seconds, m.t_0_seconds);
    };
    struct Case {
        double u, hour, day, month;
    };
    for (const auto& c :
         {Case{0.1, 0.832, 0.665, 0.521}, Case{0.5, 0.865, 0.726, 0.600}, Case{1.0, 0.956, 0.906, 0.854}}) {
        EXPECT_NEAR(factor(c.u, kHour), c.hour, 0.000501) << c.u;
        EXPECT_NEAR(factor(c.u, kDay), c.day, 0.000501) << c.u;
        EXPECT_NEAR(factor(c.u, 30.0 * kDay), c.month, 0.000501) << c.u;
    }
    EXPECT_EQ(factor(0.5, 0.0), 1.0);
}

TEST(Drift, ExponentIsNeverNegativeAndScales) {
    auto m = chip_preset("hermes-published").device;
    EXPECT_NEAR(drift_exponent(m, m.g_max_us, -6.0), 6.0 * 0.0048 - 0.0174, 1e-12);
    m.drift_scale = 0.5;
    EXPECT_NEAR(drift_exponent(m, m.g_max_us, 0.0), 0.5 * 0.0174, 1e-12);
}

// For Q_s = 0.0165, typical of the chip hermes: 7.3 % of g 300 s after programming; fresh and frozen parts
// are 4.3 % and 5.9 % for products 1 ms apart, 1.0 % and 7.2 % for products 1 us apart.
TEST(ReadNoise, SplitsByTheTimeBetweenProducts) {
    const auto m = chip_preset("hermes-published").device;
    constexpr double kQ = 1.65;  // in percent
    const auto ms = read_noise_parts(m, {.seconds = 0.0, .spacing_seconds = 1e-3});
    EXPECT_NEAR(kQ * std::hypot(ms.frozen, ms.fresh), 7.3, 0.05);
    EXPECT_NEAR(kQ * ms.fresh, 4.3, 0.05);
    EXPECT_NEAR(kQ * ms.frozen, 5.9, 0.05);
    const auto us = read_noise_parts(m, {.seconds = 0.0, .spacing_seconds = 1e-6});
    EXPECT_NEAR(kQ * us.fresh, 1.0, 0.05);
    EXPECT_NEAR(kQ * us.frozen, 7.2, 0.05);
    EXPECT_DOUBLE_EQ(std::hypot(us.frozen, us.fresh), std::hypot(ms.frozen, ms.fresh));
}

TEST(ReadNoise, ProductsFasterThanAReadSeeTheSameNoise) {
    const auto m = chip_preset("hermes-published").device;
    EXPECT_EQ(read_noise_parts(m, {.seconds = 5.0, .spacing_seconds = 0.4e-6}).fresh, 0.0);
    const auto rare = read_noise_parts(m, {.seconds = 5.0, .spacing_seconds = 1e9});
    EXPECT_EQ(rare.frozen, 0.0) << "no part can exceed the whole";
    EXPECT_NEAR(rare.fresh, std::sqrt(std::log((305.0 + 512e-9) / 1024e-9)), 1e-12);
}

TEST(ReadNoise, RefusesTimesBeforeProgramming) {
    EXPECT_THAT(error_of([] { validate(ReadTime{.seconds = -1.0}); }),
                HasSubstr("-1 is out of range; it must be >= 0"));
    EXPECT_THAT(error_of([] { validate(ReadTime{.spacing_seconds = std::nan("")}); }),
                HasSubstr("time between products"));
    EXPECT_NO_THROW(validate(ReadTime{}));
}

TEST(Device, RefusesImpossibleModels) {
    const auto error = [](auto change) {
        auto m = chip_preset("hermes-published").device;
        change(m);
        return error_of([&] { validate(m); });
    };
    EXPECT_EQ(error([](DeviceModel&) {}), "no error");
    EXPECT_THAT(error([](auto& m) { m.g_max_us = 0.0; }),
                HasSubstr("g_max: 0 is out of range; it must be >= 1e-15 and <= 1000000000"));
    EXPECT_THAT(error([](auto& m) { m.devices_per_polarity = 0; }), HasSubstr("devices_per_polarity"));
    EXPECT_THAT(error([](auto& m) { m.t_0_seconds = -1.0; }), HasSubstr("t_0"));
    EXPECT_THAT(error([](auto& m) { m.t_read_seconds = INFINITY; }), HasSubstr("t_read"));
    EXPECT_THAT(error([](auto& m) { m.programming_drift_correlation = 1.1; }),
                HasSubstr("it must be >= 0 and <= 1"));
    EXPECT_THAT(error([](auto& m) { m.stuck_at_max_probability = m.stuck_at_reset_probability = 0.6; }),
                HasSubstr("together"));
    EXPECT_THAT(error([](auto& m) { m.g_ceiling_us = 0.0; }), HasSubstr("g_ceiling: 0 is out of range"));
    EXPECT_THAT(error([](auto& m) { m.g_ceiling_us = m.g_floor_us = 5.0; }), HasSubstr("above g_floor"));
    EXPECT_THAT(error([](auto& m) { m.drift_sd.pieces[0].max = INFINITY; }), HasSubstr("drift_sd: piece 1"));
}

}  // namespace
}  // namespace imka

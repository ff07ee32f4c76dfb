#include "imka/chip/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/base/error.hpp"

namespace imka {
namespace {

void check(bool good, std::string_view field, double value, std::string_view range) {
    if (!good)
        fail(ErrorCode::bad_config,
             fmt::format("{}: {} is out of range; it must be {}", field, value, range));
}

void check_positive(std::string_view field, double value) {
    check(std::isfinite(value) && value > 0.0, field, value, "> 0");
}

void check_not_negative(std::string_view field, double value) {
    check(std::isfinite(value) && value >= 0.0, field, value, ">= 0");
}

void check_share(std::string_view field, double value) {
    check(value >= 0.0 && value <= 1.0, field, value, "from 0 to 1");
}

}  // namespace

void validate(const DeviceModel& m) {
    check_positive("g_max", m.g_max_us);
    check(m.devices_per_polarity >= 1 && m.devices_per_polarity <= 16, "devices_per_polarity",
          m.devices_per_polarity, "from 1 to 16");
    check_positive("t_0", m.t_0_seconds);
    check_positive("t_read", m.t_read_seconds);
    validate(m.programming_error_us, "programming_error");
    check_positive("programming_reference_g_max", m.programming_reference_g_max_us);
    check_not_negative("programming_scale", m.programming_scale);
    check_not_negative("zero_threshold", m.zero_threshold_us);
    validate(m.drift_mean, "drift_mean");
    validate(m.drift_sd, "drift_sd");
    check_not_negative("drift_scale", m.drift_scale);
    validate(m.read_noise, "read_noise");
    check_not_negative("read_noise_scale", m.read_noise_scale);
    check_not_negative("read_noise_frozen_scale", m.read_noise_frozen_scale);
    check_not_negative("read_noise_fresh_scale", m.read_noise_fresh_scale);
    check_share("programming_drift_correlation", m.programming_drift_correlation);
    check_share("stuck_at_reset_probability", m.stuck_at_reset_probability);
    check_share("stuck_at_max_probability", m.stuck_at_max_probability);
    check(m.stuck_at_reset_probability + m.stuck_at_max_probability <= 1.0, "stuck_at_max_probability",
          m.stuck_at_max_probability, "at most 1 together with stuck_at_reset_probability");
    check_not_negative("g_floor", m.g_floor_us);
    check(m.g_ceiling_us > m.g_floor_us, "g_ceiling", m.g_ceiling_us, "above g_floor");
}

double programming_sigma_us(const DeviceModel& m, double target_us) {
    if (target_us < m.zero_threshold_us) return 0.0;
    const double sigma = evaluate(m.programming_error_us, target_us / m.g_max_us);
    return std::max(0.0, sigma) * m.programming_scale * (m.g_max_us / m.programming_reference_g_max_us);
}

double read_noise_q(const DeviceModel& m, double g_us) {
    return std::max(0.0, evaluate(m.read_noise, g_us / m.g_max_us)) * m.read_noise_scale;
}

}  // namespace imka

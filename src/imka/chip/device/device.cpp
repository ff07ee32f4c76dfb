#include "imka/chip/device/device.hpp"

#include <algorithm>

namespace imka {
double programming_sigma_us(const DeviceModel& m, double target_us) {
    if (target_us < m.zero_threshold_us) return 0.0;
    const double sigma = evaluate(m.programming_error_us, target_us / m.g_max_us);
    return std::max(0.0, sigma) * m.programming_scale * (m.g_max_us / m.programming_reference_g_max_us);
}

double read_noise_q(const DeviceModel& m, double g_us) {
    return std::max(0.0, evaluate(m.read_noise, g_us / m.g_max_us)) * m.read_noise_scale;
}

}  // namespace imka

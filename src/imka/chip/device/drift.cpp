#include "imka/chip/device/drift.hpp"

#include <algorithm>
#include <cmath>

namespace imka {

double drift_exponent(const DeviceModel& model, double target_us, double z) {
    const double u = target_us / model.g_max_us;
    const double sd = std::max(0.0, evaluate(model.drift_sd, u));
    return model.drift_scale * std::abs(evaluate(model.drift_mean, u) + sd * z);
}

double drift_factor(double nu, double seconds, double t_0_seconds) {
    return std::pow((t_0_seconds + seconds) / t_0_seconds, -nu);
}

}  // namespace imka

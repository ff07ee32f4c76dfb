#include "imka/chip/device/read_noise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/base/error.hpp"

namespace imka {

void validate(const ReadTime& time) {
    if (!std::isfinite(time.seconds) || time.seconds < 0.0)
        fail(ErrorCode::bad_config,
             fmt::format("time since programming: {} s; it must be >= 0", time.seconds));
    if (!std::isfinite(time.spacing_seconds) || time.spacing_seconds < 0.0)
        fail(ErrorCode::bad_config,
             fmt::format("time between products: {} s; it must be >= 0", time.spacing_seconds));
}

ReadNoiseParts read_noise_parts(const DeviceModel& model, const ReadTime& time) {
    const auto power = [&](double seconds) {
        return std::max(0.0, std::log((seconds + model.t_read_seconds) / (2.0 * model.t_read_seconds)));
    };
    const double total = power(model.t_0_seconds + time.seconds);
    const double fresh = std::min(total, power(time.spacing_seconds));
    return {.frozen = model.read_noise_frozen_scale * std::sqrt(total - fresh),
            .fresh = model.read_noise_fresh_scale * std::sqrt(fresh)};
}

}  // namespace imka

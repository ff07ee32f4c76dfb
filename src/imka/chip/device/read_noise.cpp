#include "imka/chip/device/read_noise.hpp"

#include <algorithm>
#include <cmath>

#include "imka/base/config.hpp"

namespace imka {
namespace {

Fields fields(ReadTime& t) {
    return {field("time since programming", t.seconds, range::not_negative("", "s")),
            field("time between products", t.spacing_seconds, range::not_negative("", "s"))};
}

}  // namespace

void validate(const ReadTime& time) {
    ReadTime copy = time;
    check_ranges(fields(copy));
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

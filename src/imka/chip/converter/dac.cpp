#include "imka/chip/converter/dac.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdlib>

#include "imka/base/error.hpp"

namespace imka {

void quantize_inputs(const DacConfig& config, std::span<const float> x, double range,
                     std::span<std::int32_t> steps) {
    assert(x.size() == steps.size() && range > 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i]))
            fail(ErrorCode::bad_data, fmt::format("input {}: {} is not finite", i, x[i]));
        const double exact = std::clamp(double{x[i]} / range, -1.0, 1.0) * config.levels;
        steps[i] = static_cast<std::int32_t>(config.rounding == InputRounding::nearest ? std::nearbyint(exact)
                                                                                       : std::trunc(exact));
    }
}

int slice_count(const DacConfig& config) {
    if (config.encoding == InputEncoding::pulse_width) return 1;
    return static_cast<int>(std::bit_width(static_cast<unsigned>(config.levels)));
}

double slice_duration(const DacConfig& config, std::int32_t steps, int slice) {
    const int magnitude = std::abs(steps);
    if (config.encoding == InputEncoding::pulse_width) return double(magnitude) / config.levels;
    return (magnitude >> slice) & 1;
}

double jittered(const DacConfig& config, double duration, double z) {
    return duration > 0.0 ? std::max(0.0, duration + config.jitter_steps * z / config.levels) : 0.0;
}

double slice_weight(const DacConfig& config, int slice) {
    if (config.encoding == InputEncoding::pulse_width) return 1.0;
    return double(1 << slice) / config.levels;
}

}  // namespace imka

#include "imka/chip/device/device_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/device/drift.hpp"

namespace imka {
namespace {

// Range that the working devices of a polarity can reach, uS.
struct Reach {
    double low;
    double high;
};

Reach reach(const DeviceModel& m, std::uint64_t seed, std::uint64_t index) {
    const double one = m.g_max_us / m.devices_per_polarity;
    Reach r{0.0, m.g_max_us};
    if (m.stuck_at_reset_probability + m.stuck_at_max_probability == 0.0) return r;
    const auto devices = static_cast<std::uint64_t>(m.devices_per_polarity);
    for (std::uint64_t d = 0; d < devices; ++d) {
        const double draw = uniform(seed, Stream::chip_stuck, index * devices + d);
        if (draw < m.stuck_at_reset_probability) {
            r.high -= one;
        } else if (draw < m.stuck_at_reset_probability + m.stuck_at_max_probability) {
            r.low += one;
        }
    }
    return r;
}

double programmed_us(const DeviceModel& m, double target_us, const Reach& r, double z) {
    // If every device is stuck there is nothing to program.
    if (r.high - r.low < 1e-9 * m.g_max_us) return r.low;
    const double g = target_us + programming_sigma_us(m, target_us) * z;
    return std::clamp(g, std::max(r.low, m.g_floor_us), std::max(r.low, m.g_ceiling_us));
}

void check_targets(const DeviceModel& model, MatrixView<const float> target_us) {
    // Allows for rounding of a target to float.
    const double most = model.g_max_us * (1.0 + 1e-6);
    for (std::size_t r = 0; r < target_us.rows(); ++r) {
        for (std::size_t c = 0; c < target_us.cols(); ++c) {
            const float target = target_us(r, c);
            if (!(target >= 0.0F && target <= most))
                fail(ErrorCode::bad_config,
                     fmt::format("target of row {}, column {}: {} uS; it must be from 0 to {} uS", r, c,
                                 target, model.g_max_us));
        }
    }
}

}  // namespace

DeviceState program_devices(const DeviceModel& m, MatrixView<const float> target_us, DeviceIds ids) {
    validate(m);
    check_targets(m, target_us);
    assert(ids.stride >= target_us.cols());
    const std::size_t rows = target_us.rows();
    const std::size_t cols = target_us.cols();
    DeviceState state{ids, {rows, cols}, {rows, cols}, {rows, cols}};
    const double rho = m.programming_drift_correlation;
    const double rest = std::sqrt(1.0 - rho * rho);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) {
            const auto index = device_index(ids, r, c);
            const auto limits = reach(m, ids.seed, index);
            double target = std::clamp(double{target_us(r, c)}, limits.low, limits.high);
            if (target < m.zero_threshold_us) target = 0.0;
            const double z = normal(ids.seed, Stream::chip_program, index);
            const double other = normal(ids.seed, Stream::chip_drift, index);
            const double g = programmed_us(m, target, limits, z);
            state.g_us(r, c) = static_cast<float>(g);
            state.nu(r, c) = static_cast<float>(drift_exponent(m, target, rest * other - rho * z));
            state.read_noise(r, c) = static_cast<float>(read_noise_q(m, g));
        }
    }
    return state;
}

Conductances conductances_at(const DeviceModel& model, const DeviceState& state, const ReadTime& time) {
    validate(time);
    const auto noise = read_noise_parts(model, time);
    const std::size_t rows = state.g_us.rows();
    const std::size_t cols = state.g_us.cols();
    Conductances out{{rows, cols}, {rows, cols}};
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) {
            const double drifted =
                state.g_us(r, c) * drift_factor(state.nu(r, c), time.seconds, model.t_0_seconds);
            const double sd = drifted * state.read_noise(r, c);
            const double z = normal(state.ids.seed, Stream::chip_read_frozen, device_index(state.ids, r, c));
            out.g_us(r, c) = static_cast<float>(std::max(0.0, drifted + sd * noise.frozen * z));
            out.fresh_sd_us(r, c) = static_cast<float>(sd * noise.fresh);
        }
    }
    return out;
}

}  // namespace imka

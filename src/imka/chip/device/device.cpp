#include "imka/chip/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

double unclamped(const CurvePiece& piece, double a) {
    const auto& c = piece.coefficients;
    switch (piece.form) {
        case CurveForm::logarithm:
            return c[0] * std::log(a) + c[1];
        case CurveForm::power:
            return c[0] * std::pow(a, c[1]);
        case CurveForm::polynomial:
            break;
    }
    return polynomial(c, a);
}

// At a = 0 the formula is infinite (or 0 times infinity), so only the clamps give a value there.
bool infinite_at_zero(const CurvePiece& piece) {
    return piece.form == CurveForm::logarithm ||
           (piece.form == CurveForm::power && piece.coefficients[1] < 0.0);
}

void validate_piece(const CurvePiece& piece, bool first, const std::string& where) {
    const auto wrong = [&](std::string_view what) {
        fail(ErrorCode::bad_config, fmt::format("{}: {}", where, what));
    };
    const auto count = piece.coefficients.size();
    if (piece.form == CurveForm::polynomial ? count < 1 || count > 16 : count != 2)
        wrong(fmt::format("{} coefficients; a {} has {}", count, to_string(piece.form),
                          piece.form == CurveForm::polynomial ? "1 to 16" : "2"));
    if (!std::ranges::all_of(piece.coefficients, [](double c) { return std::isfinite(c); }))
        wrong("a coefficient is not finite");
    if (std::isnan(piece.min) || std::isnan(piece.max) || piece.min > piece.max)
        wrong("'min' must not exceed 'max'");
    if (!first || !infinite_at_zero(piece)) return;
    if (piece.coefficients[0] == 0.0) wrong("the first coefficient must not be 0; use a polynomial");
    if (!std::isfinite(piece.min) || !std::isfinite(piece.max))
        wrong(fmt::format("a {} that starts at 0 needs 'min' and 'max'", to_string(piece.form)));
}

Fields fields(ReadTime& t) {
    return {field("time since programming", t.seconds, range::not_negative("", "s")),
            field("time between products", t.spacing_seconds, range::not_negative("", "s"))};
}

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

}  // namespace

double polynomial(std::span<const double> c, double a) {
    return std::accumulate(c.rbegin(), c.rend(), 0.0,
                           [a](double sum, double next) { return sum * a + next; });
}

double evaluate(const Curve& curve, double u) {
    if (curve.pieces.empty()) return 0.0;
    const double a = curve.argument_at_g_max * u;
    const auto it = std::find_if(curve.pieces.begin(), curve.pieces.end() - 1,
                                 [a](const CurvePiece& piece) { return a < piece.below; });
    return curve.value_scale * std::clamp(unclamped(*it, a), it->min, it->max);
}

void validate(const Curve& curve, std::string_view name, double min, double max) {
    for (const double scale : {curve.argument_at_g_max, curve.value_scale}) {
        if (!std::isfinite(scale) || scale <= 0.0)
            fail(ErrorCode::bad_config, fmt::format("{}: a scale of {}; it must be > 0", name, scale));
    }
    double last = 0.0;
    for (std::size_t i = 0; i < curve.pieces.size(); ++i) {
        const auto& piece = curve.pieces[i];
        const auto where = fmt::format("{}: piece {}", name, i + 1);
        validate_piece(piece, i == 0, where);
        if (!(piece.below > last))
            fail(ErrorCode::bad_config,
                 fmt::format("{}: 'below' is {}; it must be > {}", where, piece.below, last));
        if (i + 1 == curve.pieces.size() && std::isfinite(piece.below))
            fail(ErrorCode::bad_config, fmt::format("{}: the last piece must have no 'below'", where));
        last = piece.below;
    }
    // Finite coefficients may still overflow; devices evaluate the curve between 0 and 1.
    for (int i = 0; i <= 64; ++i) {
        const double value = evaluate(curve, i / 64.0);
        if (!std::isfinite(value))
            fail(ErrorCode::bad_config, fmt::format("{}: not finite at u = {}", name, i / 64.0));
        if (value < min || value > max)
            fail(ErrorCode::bad_config,
                 fmt::format("{}: {:.4g} at u = {} is out of range; it must be from {} to {}", name, value,
                             i / 64.0, min, max));
    }
}

double programming_sigma_us(const DeviceModel& m, double target_us) {
    if (target_us < m.zero_threshold_us) return 0.0;
    const double sigma = evaluate(m.programming_error_us, target_us / m.g_max_us);
    return std::max(0.0, sigma) * m.programming_scale * (m.g_max_us / m.programming_reference_g_max_us);
}

double read_noise_q(const DeviceModel& m, double g_us) {
    return std::max(0.0, evaluate(m.read_noise, g_us / m.g_max_us)) * m.read_noise_scale;
}

double drift_exponent(const DeviceModel& model, double target_us, double z) {
    const double u = target_us / model.g_max_us;
    const double sd = std::max(0.0, evaluate(model.drift_sd, u));
    return model.drift_scale * std::abs(evaluate(model.drift_mean, u) + sd * z);
}

double drift_factor(double nu, double seconds, double t_0_seconds) {
    return std::pow((t_0_seconds + seconds) / t_0_seconds, -nu);
}

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

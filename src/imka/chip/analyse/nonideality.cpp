#include "imka/chip/analyse/nonideality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"

namespace imka {
namespace {

using Settings = ChipSettings;

constexpr int kMostLevels = 32767;

bool is_zero(const Curve& curve) {
    return std::all_of(curve.pieces.begin(), curve.pieces.end(), [](const CurvePiece& piece) {
        return std::all_of(piece.coefficients.begin(), piece.coefficients.end(),
                           [](double c) { return c == 0.0; });
    });
}

bool has_read_noise(const DeviceModel& m) {
    return m.read_noise_scale > 0.0 && !is_zero(m.read_noise);
}

constexpr std::array kList = {
    Nonideality{"input_quantisation", "inputs are rounded to few levels",
                [](const Settings& s) { return s.spec.core.dac.levels < kMostLevels; },
                [](Settings& s) { s.spec.core.dac.levels = kMostLevels; }},
    Nonideality{"input_truncation", "inputs are rounded towards 0",
                [](const Settings& s) { return s.spec.core.dac.rounding == InputRounding::truncate; },
                [](Settings& s) { s.spec.core.dac.rounding = InputRounding::nearest; }},
    Nonideality{"input_jitter", "pulses vary in length",
                [](const Settings& s) { return s.spec.core.dac.jitter_steps > 0.0; },
                [](Settings& s) { s.spec.core.dac.jitter_steps = 0.0; }},
    Nonideality{"input_clipping", "inputs beyond the range are clipped",
                [](const Settings& s) { return !s.whole_range; },
                [](Settings& s) {
                    s.whole_range = true;
                    s.calibration.input_range = InputRangeRule::max;
                }},
    Nonideality{"programming_error", "devices miss their targets",
                [](const Settings& s) {
                    return s.spec.device.programming_scale > 0.0 &&
                           !is_zero(s.spec.device.programming_error_us);
                },
                [](Settings& s) { s.spec.device.programming_scale = 0.0; }},
    Nonideality{"zero_threshold", "small targets become 0",
                [](const Settings& s) { return s.spec.device.zero_threshold_us > 0.0; },
                [](Settings& s) { s.spec.device.zero_threshold_us = 0.0; }},
    Nonideality{"conductance_limits", "a polarity has a minimum and a maximum conductance",
                [](const Settings& s) {
                    return s.spec.device.g_floor_us > 0.0 || std::isfinite(s.spec.device.g_ceiling_us);
                },
                [](Settings& s) {
                    s.spec.device.g_floor_us = 0.0;
                    s.spec.device.g_ceiling_us = std::numeric_limits<double>::infinity();
                }},
    Nonideality{"stuck_devices", "devices that do not respond to pulses",
                [](const Settings& s) {
                    return s.spec.device.stuck_at_reset_probability + s.spec.device.stuck_at_max_probability >
                           0.0;
                },
                [](Settings& s) {
                    s.spec.device.stuck_at_reset_probability = 0.0;
                    s.spec.device.stuck_at_max_probability = 0.0;
                }},
    Nonideality{"drift", "conductance falls with time",
                [](const Settings& s) {
                    return s.spec.device.drift_scale > 0.0 &&
                           !(is_zero(s.spec.device.drift_mean) && is_zero(s.spec.device.drift_sd));
                },
                [](Settings& s) { s.spec.device.drift_scale = 0.0; }},
    Nonideality{"frozen_read_noise", "slow 1/f noise: the same in every product",
                [](const Settings& s) {
                    return has_read_noise(s.spec.device) && s.spec.device.read_noise_frozen_scale > 0.0;
                },
                [](Settings& s) { s.spec.device.read_noise_frozen_scale = 0.0; }},
    Nonideality{"fresh_read_noise", "fast 1/f noise: new in every product",
                [](const Settings& s) {
                    return has_read_noise(s.spec.device) && s.spec.device.read_noise_fresh_scale > 0.0;
                },
                [](Settings& s) { s.spec.device.read_noise_fresh_scale = 0.0; }},
    Nonideality{"polarity_asymmetry", "devices read backwards differ (one-phase)",
                [](const Settings& s) {
                    return s.spec.core.polarity_asymmetry > 0.0 &&
                           s.spec.core.read_mode == ReadMode::one_phase;
                },
                [](Settings& s) { s.spec.core.polarity_asymmetry = 0.0; }},
    Nonideality{"ir_drop", "voltage lost along the wires",
                [](const Settings& s) {
                    return s.spec.core.ir_drop.scale > 0.0 && s.spec.core.ir_drop.wire_ohm > 0.0;
                },
                [](Settings& s) { s.spec.core.ir_drop.scale = 0.0; }},
    Nonideality{"adc_gain", "converter gains differ",
                [](const Settings& s) {
                    return s.spec.core.adc.gain_sd > 0.0 || (s.spec.core.adc.negative_gain_sd > 0.0 &&
                                                             s.spec.core.read_mode == ReadMode::one_phase);
                },
                [](Settings& s) {
                    s.spec.core.adc.gain_sd = 0.0;
                    s.spec.core.adc.negative_gain_sd = 0.0;
                }},
    Nonideality{"adc_offset", "converters have an offset",
                [](const Settings& s) {
                    return s.spec.core.adc.offset_sd_counts > 0.0 ||
                           s.spec.core.adc.offset_mean_counts != 0.0;
                },
                [](Settings& s) {
                    s.spec.core.adc.offset_sd_counts = 0.0;
                    s.spec.core.adc.offset_mean_counts = 0.0;
                }},
    Nonideality{"polarity_error", "small currents get the wrong sign (one-phase)",
                [](const Settings& s) {
                    return s.spec.core.adc.polarity_error_counts > 0.0 &&
                           s.spec.core.read_mode == ReadMode::one_phase;
                },
                [](Settings& s) { s.spec.core.adc.polarity_error_counts = 0.0; }},
    Nonideality{"adc_noise", "noise of each conversion",
                [](const Settings& s) { return s.spec.core.adc.noise_counts > 0.0; },
                [](Settings& s) { s.spec.core.adc.noise_counts = 0.0; }},
    Nonideality{"adc_rounding", "counts are integers",
                [](const Settings& s) { return s.spec.core.adc.rounding != AdcRounding::none; },
                [](Settings& s) { s.spec.core.adc.rounding = AdcRounding::none; }},
    Nonideality{"adc_range", "counts are limited: columns get less conductance, or saturate",
                [](const Settings& s) { return s.spec.core.adc.max_count > 0; },
                [](Settings& s) { s.spec.core.adc.max_count = 0; }},
    Nonideality{"product_limit", "products saturate",
                [](const Settings& s) { return s.spec.core.affine.limit.deviations > 0.0; },
                [](Settings& s) { s.spec.core.affine.limit.deviations = 0.0; }},
    Nonideality{"output_fp16", "half-precision scale and offset",
                [](const Settings& s) { return s.spec.core.affine.fp16; },
                [](Settings& s) { s.spec.core.affine.fp16 = false; }},
    Nonideality{"output_floor", "sums of counts and outputs are rounded down",
                [](const Settings& s) {
                    return s.spec.core.adc.output_floor ||
                           (s.spec.core.affine.rounding == OutputRounding::floor &&
                            s.spec.core.affine.output_bits > 0);
                },
                [](Settings& s) {
                    s.spec.core.adc.output_floor = false;
                    s.spec.core.affine.rounding = OutputRounding::nearest;
                }},
    Nonideality{"output_bits", "outputs are rounded to few bits",
                [](const Settings& s) { return s.spec.core.affine.output_bits > 0; },
                [](Settings& s) {
                    s.spec.core.affine.output_bits = 0;
                    s.spec.core.affine.headroom = 1.0;
                }},
};

}  // namespace

std::span<const Nonideality> nonidealities() {
    return kList;
}

const Nonideality& nonideality(std::string_view name) {
    const auto* found =
        std::find_if(kList.begin(), kList.end(), [name](const Nonideality& n) { return n.name == name; });
    if (found != kList.end()) return *found;
    std::vector<std::string_view> names;
    names.reserve(kList.size());
    for (const auto& n : kList) names.push_back(n.name);
    fail(ErrorCode::bad_usage,
         fmt::format("'{}' is not a known non-ideality; known: {}", name, join_names(names)));
}

namespace switched {

ChipSettings only(ChipSettings settings, std::string_view name) {
    const auto& kept = nonideality(name);
    for (const auto& n : kList) {
        if (n.name != kept.name) n.switch_off(settings);
    }
    return settings;
}

ChipSettings without(ChipSettings settings, std::string_view name) {
    nonideality(name).switch_off(settings);
    return settings;
}

ChipSettings without_all(ChipSettings settings) {
    for (const auto& n : kList) n.switch_off(settings);
    return settings;
}

}  // namespace switched

}  // namespace imka

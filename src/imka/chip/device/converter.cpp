#include "imka/chip/device/converter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/ops/readout/readout.hpp"

namespace imka {
namespace {

// The gain stays positive for any spread: a counter only counts forwards.
constexpr double kLeastGain = 0.01;

double rounded(AdcRounding rounding, double value) {
    if (rounding == AdcRounding::none) return value;
    return rounding == AdcRounding::round ? std::nearbyint(value) : std::floor(value);
}

double most(const AdcConfig& config) {
    return config.max_count > 0 ? config.max_count : std::numeric_limits<double>::infinity();
}

}  // namespace

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

double ir_drop_weight(std::size_t row, std::size_t col, std::size_t rows) {
    const std::size_t distance = col % 2 == 0 ? row : rows - 1 - row;
    const double rest = 1.0 - static_cast<double>(distance) / static_cast<double>(rows);
    return 1.0 - rest * rest;
}

double with_ir_drop(const IrDropConfig& config, const ColumnCurrent& current, std::size_t rows) {
    const double a = static_cast<double>(rows) * config.wire_ohm * current.absolute * 1e-6;
    const double share = a * (0.05 * a * a - 0.2 * a + 0.5);
    return current.sum - config.scale * share * current.weighted;
}

std::vector<AdcColumn> draw_adc_columns(const AdcConfig& config, std::uint64_t seed, std::uint64_t first,
                                        std::size_t count) {
    std::vector<AdcColumn> columns(count);
    for (std::size_t c = 0; c < count; ++c) {
        const std::uint64_t index = first + c;
        auto& column = columns[c];
        const auto gain = [&](double sd, std::uint64_t number) {
            return std::max(kLeastGain, 1.0 + sd * normal(seed, Stream::chip_adc_gain, number));
        };
        column.gain = gain(config.gain_sd, 2 * index);
        column.negative_gain = column.gain * gain(config.negative_gain_sd, 2 * index + 1);
        column.offset_counts = config.offset_mean_counts +
                               config.offset_sd_counts * normal(seed, Stream::chip_adc_offset, index);
    }
    return columns;
}

double convert(const AdcConfig& config, const AdcColumn& column, double charge, double noise) {
    const double value = column.gain * charge + column.offset_counts + noise;
    return std::clamp(rounded(config.rounding, value), 0.0, most(config));
}

double convert_signed(const AdcConfig& config, const AdcColumn& column, double charge,
                      const SignedNoise& noise) {
    const double gain = charge < 0.0 ? column.negative_gain : column.gain;
    const double value = gain * charge + column.offset_counts + noise.counts;
    const double magnitude = std::min(rounded(config.rounding, std::abs(value)), most(config));
    return std::copysign(magnitude, value + noise.comparator);
}

double round_to_half(double x) {
    if (x == 0.0 || !std::isfinite(x)) return x;
    // 11 significant bits; below 2^-14 the spacing stays 2^-24.
    int exponent = 0;
    std::frexp(x, &exponent);
    const double place = std::ldexp(1.0, std::max(exponent - 11, -24));
    const double value = std::nearbyint(x / place) * place;
    return std::abs(value) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), x) : value;
}

double affine_value(const AffineConfig& config, const AffineColumn& column, double counts) {
    if (!config.fp16) return column.scale * counts + column.offset;
    // Products and sums of half-precision numbers are exact in double, so there is only one rounding.
    return round_to_half(round_to_half(column.scale) * round_to_half(counts) + round_to_half(column.offset));
}

double apply_affine(const AffineConfig& config, const AffineColumn& column, double counts) {
    double value = affine_value(config, column, counts);
    const bool soft = config.limit.shape == LimitShape::soft && std::isfinite(column.limit);
    const double reach = soft ? ops::kSoftRange * column.limit : column.limit;
    value = std::clamp(value, -reach, reach);
    if (soft) value /= std::sqrt(1.0 + (value / column.limit) * (value / column.limit));
    if (config.output_bits == 0) return value;
    const double most = (1 << (config.output_bits - 1)) - 1;
    const double clipped = std::clamp(value, -most, most);
    return config.rounding == OutputRounding::floor ? std::floor(clipped) : std::nearbyint(clipped);
}

}  // namespace imka

#include "imka/chip/converter/adc.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "imka/base/random.hpp"

namespace imka {
namespace {

// The gain stays positive for any spread: a counter only counts forwards.
constexpr double kLeastGain = 0.01;

double rounded(AdcRounding rounding, double value) {
    switch (rounding) {
        case AdcRounding::round:
            return std::nearbyint(value);
        case AdcRounding::floor:
            return std::floor(value);
        case AdcRounding::none:
            break;
    }
    return value;
}

double most(const AdcConfig& config) {
    return config.max_count > 0 ? config.max_count : std::numeric_limits<double>::infinity();
}

}  // namespace

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

}  // namespace imka

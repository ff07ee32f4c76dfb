// Output converter of a column: a counter driven by the column's current.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"

namespace imka {

enum class AdcRounding {
    none,   // fractional counts: no resolution limit
    round,  // to the nearest count
    floor,  // down to an integer
};
template <>
struct EnumNames<AdcRounding> {
    static constexpr std::string_view what = "rounding";
    static constexpr std::string_view values[] = {"none", "round", "floor"};
};

// Defaults: a perfect converter.
struct AdcConfig {
    double counts_per_us = 1.0 / 0.115;  // counts for 1 uS over a full pulse; > 0
    int max_count = 0;                   // a conversion saturates here; 0: never
    AdcRounding rounding = AdcRounding::none;
    double gain_sd = 0.0;  // spread of the columns' gains around 1; a gain is at least 0.01; >= 0
    // Spread of the gain for negative currents around the positive one; one-phase reads only; >= 0.
    double negative_gain_sd = 0.0;
    double offset_sd_counts = 0.0;    // spread of the columns' offsets, added to every conversion; >= 0
    double noise_counts = 0.0;        // standard deviation, new in every conversion; >= 0
    double offset_mean_counts = 0.0;  // mean of the columns' offsets
    // One-phase: standard deviation of the comparator that decides the sign; >= 0.
    double polarity_error_counts = 0.0;
    bool output_floor = false;  // round down the signed sum of all conversions
};

// Converter of one column.
struct AdcColumn {
    double gain = 1.0;
    double negative_gain = 1.0;
    double offset_counts = 0.0;
};
// The converters of columns first, first + 1, ...
std::vector<AdcColumn> draw_adc_columns(const AdcConfig& config, std::uint64_t seed, std::uint64_t first,
                                        std::size_t count);

// Counts of one phase, whose charge cannot be negative: clamp(R(gain * charge + offset + noise), 0,
// max_count) with rounding R. charge and noise in counts.
double convert(const AdcConfig& config, const AdcColumn& column, double charge, double noise);

// Noise of one conversion of a charge of either sign.
struct SignedNoise {
    double counts = 0.0;
    double comparator = 0.0;  // counts; affects only the choice of the counter
};
// Counts of a charge of either sign, for one-phase reads. With v = gain * charge + offset + noise, the
// sign of v + comparator noise chooses the counter: sign * min(R(|v|), max_count). The gain is
// negative_gain for charge < 0.
double convert_signed(const AdcConfig& config, const AdcColumn& column, double charge,
                      const SignedNoise& noise);

}  // namespace imka

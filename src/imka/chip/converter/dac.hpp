// Inputs of a crossbar: signed steps of a fixed range, applied as voltage pulses.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "imka/base/names.hpp"

namespace imka {

enum class InputEncoding {
    pulse_width,  // one pulse whose length is the magnitude
    bit_serial,   // one full-length pulse per bit of the magnitude; counts are weighted and added
};
template <>
struct EnumNames<InputEncoding> {
    static constexpr std::string_view what = "input encoding";
    static constexpr std::string_view values[] = {"pulse_width", "bit_serial"};
};

enum class InputRounding {
    nearest,   // ties to even
    truncate,  // towards 0
};
template <>
struct EnumNames<InputRounding> {
    static constexpr std::string_view what = "input rounding";
    static constexpr std::string_view values[] = {"nearest", "truncate"};
};

struct DacConfig {
    int levels = 127;  // steps on either side of 0; 1 to 32767
    InputEncoding encoding = InputEncoding::pulse_width;
    double step_seconds = 1e-9;  // pulse length of one step; a full pulse has `levels` steps; > 0
    InputRounding rounding = InputRounding::nearest;
    double jitter_steps = 0.0;  // standard deviation of an input's pulse length, new in every product; >= 0
};

// steps[i] = clip(x[i] / range, -1, 1) * levels, rounded as configured. range > 0. Error{bad_data} for a
// value that is not finite, naming the first.
void quantize_inputs(const DacConfig& config, std::span<const float> x, double range,
                     std::span<std::int32_t> steps);

// A magnitude is applied in slices, each followed by a conversion: the sum over slices of slice_weight *
// slice_duration is |steps| / levels. Durations are in full pulses.
int slice_count(const DacConfig& config);
double slice_duration(const DacConfig& config, std::int32_t steps, int slice);
double slice_weight(const DacConfig& config, int slice);

// A pulse lengthened by jitter_steps * z steps: max(0, duration + jitter_steps z / levels), in full
// pulses. No pulse stays no pulse.
double jittered(const DacConfig& config, double duration, double z);

}  // namespace imka

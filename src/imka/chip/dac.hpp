// Inputs of a crossbar: signed steps of a fixed range, applied as voltage pulses.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "imka/base/names.hpp"

namespace imka {

enum class InputEncoding {
    pulse_width,  // one pulse as long as the magnitude
    bit_serial,   // one pulse of full length for each bit of the magnitude; counts are weighted and added
};
template <>
struct EnumNames<InputEncoding> {
    static constexpr std::string_view what = "input encoding";
    static constexpr std::string_view values[] = {"pulse_width", "bit_serial"};
};

struct DacConfig {
    int levels = 127;  // steps on either side of 0; 1 to 32767
    InputEncoding encoding = InputEncoding::pulse_width;
    double step_seconds = 1e-9;  // pulse of one step; a full pulse has `levels` of them; > 0
};
void validate(const DacConfig& config);

// steps[i] = round(clip(x[i] / range, -1, 1) * levels), halves to even. range > 0. Error{bad_data} for values
// that are not finite, naming the first.
void quantize_inputs(const DacConfig& config, std::span<const float> x, double range,
                     std::span<std::int32_t> steps);

// A magnitude is applied in slices, each followed by a conversion: sum over slices of
// slice_weight * slice_duration = |steps| / levels. Durations are in full pulses.
int slice_count(const DacConfig& config);
double slice_duration(const DacConfig& config, std::int32_t steps, int slice);
double slice_weight(const DacConfig& config, int slice);

}  // namespace imka

// What makes a chip differ from exact arithmetic, as a list of switches: each can be taken away alone, or
// kept alone, to see what it causes.
#pragma once

#include <span>
#include <string_view>

#include "imka/chip/program/calibrate.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka {

// What the switches act on. Programming is statistical: its error is a curve of the device model.
struct ChipSettings {
    ChipSpec spec;
    CalibrationConfig calibration;
    // The range is the largest of all inputs, also of those that come after calibration: nothing is clipped.
    bool whole_range = false;
};

struct Nonideality {
    std::string_view name;
    std::string_view help;
    // Whether there is anything to switch off.
    bool (*present)(const ChipSettings& settings);
    void (*switch_off)(ChipSettings& settings);
};

// In the order of the signal: inputs, devices, wires, converters, outputs. Switches are independent of each
// other; with all off the chip computes the digital product but for float arithmetic and 32767 input levels.
std::span<const Nonideality> nonidealities();

// Error{bad_usage} that lists the names when there is none.
const Nonideality& nonideality(std::string_view name);

// All but one switched off.
ChipSettings only(ChipSettings settings, std::string_view name);
ChipSettings without(ChipSettings settings, std::string_view name);
ChipSettings without_all(ChipSettings settings);

}  // namespace imka

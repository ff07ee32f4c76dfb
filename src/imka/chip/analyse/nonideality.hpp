// Differences between a chip and exact arithmetic, as a list of switches. To see the effect of one, switch it
// off, or switch off all others.
#pragma once

#include <span>
#include <string_view>

#include "imka/chip/program/calibrate.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka {

// Settings changed by the switches. Programming is statistical: its error is a curve of the device model.
struct ChipSettings {
    ChipSpec spec;
    CalibrationConfig calibration;
    // The range covers all inputs, including the test inputs, so nothing is clipped.
    bool whole_range = false;
};

struct Nonideality {
    std::string_view name;
    std::string_view help;
    // True if there is anything to switch off.
    bool (*present)(const ChipSettings& settings);
    void (*switch_off)(ChipSettings& settings);
};

// In signal order: inputs, devices, wires, converters, outputs. Switches are independent. With all of them
// off the chip computes the digital product, up to float arithmetic and 32767 input levels.
std::span<const Nonideality> nonidealities();

// Error{bad_usage} for an unknown name, listing the known ones.
const Nonideality& nonideality(std::string_view name);

// Settings with some non-idealities switched off. A nested namespace, since names this short would clash.
namespace switched {
ChipSettings only(ChipSettings settings, std::string_view name);  // all but one are off
ChipSettings without(ChipSettings settings, std::string_view name);
ChipSettings without_all(ChipSettings settings);
}  // namespace switched

}  // namespace imka

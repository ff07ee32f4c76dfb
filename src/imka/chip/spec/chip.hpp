// A chip as described by its file: devices and cores, with the source of every constant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/chip/device/device.hpp"
#include "imka/chip/device/device_pulse.hpp"
#include "imka/chip/spec/core_spec.hpp"

namespace imka {

// Source of a constant.
struct Provenance {
    std::string key;     // "device.g_max"
    std::string source;  // empty if the file gives none
};

struct ChipSpec {
    std::string name;
    std::string description;
    DeviceModel device;
    CoreSpec core;
    int cores = 64;                      // of one chip; 1 to 65536
    int chips = 1;                       // that share the work; 1 to 65536
    std::optional<PulseModel> pulses;    // of one device; none: programming with pulses is not supported
    std::vector<Provenance> provenance;  // in the order of the file
};

// Error{bad_config} naming the constant and its range, from the field list (chip_fields.cpp).
void validate(const ChipSpec& chip);

// Presets included in the library: ideal, hermes, ... (chips/*.yaml).
std::vector<std::string> chip_names();
// Error{bad_config} that lists the known names if there is none.
ChipSpec chip_preset(const std::string& name);
// The text of its file.
std::string_view chip_preset_text(const std::string& name);

}  // namespace imka

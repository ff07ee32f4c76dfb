// A chip as its file describes it: devices and cores, with the origin of every constant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/chip/device/device.hpp"
#include "imka/chip/device/device_pulse.hpp"
#include "imka/chip/spec/core_spec.hpp"

namespace imka {

// Where a constant comes from, for people who doubt it.
struct Provenance {
    std::string key;     // "device.g_max"
    std::string source;  // empty where the file names none
};

struct ChipSpec {
    std::string name;
    std::string description;
    DeviceModel device;
    CoreSpec core;
    int cores = 64;                      // of one chip; 1 to 65536
    int chips = 1;                       // that share the work; 1 to 65536
    std::optional<PulseModel> pulses;    // of one device; none: programming with pulses is not known
    std::vector<Provenance> provenance;  // in the order of the file
};

// Error{bad_config} naming the constant and its range, which the field list has (chip_fields.cpp).
void validate(const ChipSpec& chip);

// The chips that come with the library: ideal, hermes, ... (chips/*.yaml).
std::vector<std::string> chip_names();
// Error{bad_config} that lists the names when there is none.
ChipSpec chip_preset(const std::string& name);
// The text of its file.
std::string_view chip_preset_text(const std::string& name);

}  // namespace imka

// A chip as described by its file: devices and cores, with the source of every constant.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"
#include "imka/chip/device/converter.hpp"
#include "imka/chip/device/device.hpp"
#include "imka/chip/device/device_pulse.hpp"

namespace imka {

// Read mode of a core, which is a crossbar of cells between input and output converters.
enum class ReadMode {
    four_phase,  // one phase per sign of input and weight: four charges, each converted separately
    one_phase,   // all at once: currents of opposite sign subtract on the wire
};
template <>
struct EnumNames<ReadMode> {
    static constexpr std::string_view what = "read mode";
    static constexpr std::string_view values[] = {"four_phase", "one_phase"};
};

// Cost of one product in addition to its pulses (analyse/cost.hpp). Defaults: none, and power unknown.
struct CostConfig {
    double phase_overhead_seconds = 0.0;    // after every pulse and conversion; >= 0
    double product_overhead_seconds = 0.0;  // once per product; >= 0
    double one_phase_watts = 0.0;           // of a core that multiplies continuously; >= 0; 0: unknown
    double four_phase_watts = 0.0;
};

// Defaults: a core without errors.
struct CoreSpec {
    int rows = 256;  // inputs; 1 to 65536
    int cols = 256;  // outputs; 1 to 65536
    ReadMode read_mode = ReadMode::four_phase;
    DacConfig dac;
    AdcConfig adc;
    AffineConfig affine;
    IrDropConfig ir_drop;
    // One-phase reads apply voltages of both polarities. Read backwards, a device has its conductance
    // times 1 + asymmetry N(0,1), the same in every read; >= 0.
    double polarity_asymmetry = 0.0;
    CostConfig cost;
};
// Error{bad_config} naming the constant and its range, from the field list (spec/chip_fields.cpp).
void validate(const CoreSpec& spec);

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
    // Draws of fitted constants from their posterior, by name; lists of equal length. They describe the
    // uncertainty of the fit; posterior_draw() applies one draw.
    std::map<std::string, std::vector<double>> posterior;
};

// Error{bad_config} naming the constant and its range, from the field list (chip_fields.cpp).
void validate(const ChipSpec& chip);

// Presets included in the library: ideal, hermes, ... (chips/*.yaml).
std::vector<std::string> chip_names();
// Error{bad_config} for an unknown name, listing the known ones.
ChipSpec chip_preset(const std::string& name);
// Text of the file of a preset.
std::string_view chip_preset_text(const std::string& name);

// Reads the YAML file of a chip (format: docs/chip.md). Strict: unknown, duplicate or missing keys and values
// of the wrong type or unit or out of range are Error{bad_config} that names file and line (limits:
// io/yaml.hpp). The result is valid.
//
// A file may extend a base with `extends: hermes` and give only the differences. The base is a preset or, for
// a chip on disk, a file in the same folder. It may extend another base, in chains of at most eight.
ChipSpec parse_chip(std::string_view text, std::string_view where);
ChipSpec load_chip(const std::filesystem::path& path);

// The text of a chip file (format: docs/chip.md). parse_chip restores the chip: every constant and curve to
// the last bit, and its source. Equal chips have equal texts. An empty name or description, not allowed in a
// file, becomes 'unnamed'.
std::string chip_text(const ChipSpec& chip);

}  // namespace imka

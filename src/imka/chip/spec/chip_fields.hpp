// The constants of a chip under their names in the file. One list serves reading, display, changes and
// hashing; a new constant needs only one more line in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka {

// Every number and switch: "device.g_max", "core.adc_noise", "chip.cores". Includes "pulses." only if the
// chip has a pulse model.
Fields fields(ChipSpec& chip);

// Every function of the conductance: "device.read_noise". Refers to the chip, like a Field.
struct CurveField {
    std::string name;
    std::string_view unit;
    std::string_view help;
    Curve& curve;
    double min = 0.0;  // range of its values between 0 and g_max
    double max = 1.0;
};
std::vector<CurveField> curve_fields(ChipSpec& chip);

// Changes one constant: set_constant(chip, "core.adc_noise", "2"). Error{bad_config} that names the
// constant and its range, or the names nearest to an unknown one; the chip then stays unchanged.
void set_constant(ChipSpec& chip, std::string_view name, std::string_view text);
// Changes several, "device.programming_scale=0.5,core.adc_noise=2"; all or none. Empty text changes
// nothing.
void set_constants(ChipSpec& chip, std::string_view list);

// Number of draws in chip.posterior; 0 if there are none.
std::size_t posterior_draws(const ChipSpec& chip);
// The chip with the constants of one draw. Error{bad_config} if there is no such draw.
ChipSpec posterior_draw(const ChipSpec& chip, std::size_t draw);
// Error{bad_config} for lists of different lengths, unknown names and values out of range.
void check_posterior(const ChipSpec& chip);

// A constant for display.
struct ConstantText {
    std::string name;
    std::string value;   // "20.7", "four_phase", "none"; for a curve its pieces
    std::string unit;    // empty: none
    std::string source;  // empty: the file gives none, or the value is the default
    std::string help;
};
std::vector<ConstantText> describe(const ChipSpec& chip);

// SHA-256 over the constants that differ from those of ChipSpec{}, so that a new constant changes no existing
// hash. Does not depend on names, sources or the posterior.
std::string chip_hash(const ChipSpec& chip);

}  // namespace imka

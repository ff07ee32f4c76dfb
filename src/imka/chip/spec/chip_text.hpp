// Writes a chip as the text of a chip file (docs/chip.md describes it).
#pragma once

#include <string>

#include "imka/chip/spec/chip.hpp"

namespace imka {

// parse_chip gives the same chip again: every constant and curve to the last bit, and where it comes from.
// Equal chips have equal texts. A chip without name or description, which no file can be, is 'unnamed'.
std::string chip_text(const ChipSpec& chip);

}  // namespace imka

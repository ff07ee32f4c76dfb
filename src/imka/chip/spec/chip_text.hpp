// Writes a chip as the text of a chip file (format: docs/chip.md).
#pragma once

#include <string>

#include "imka/chip/spec/chip.hpp"

namespace imka {

// parse_chip restores the chip: every constant and curve to the last bit, and its source. Equal chips have
// equal texts. An empty name or description, which a file cannot have, becomes 'unnamed'.
std::string chip_text(const ChipSpec& chip);

}  // namespace imka

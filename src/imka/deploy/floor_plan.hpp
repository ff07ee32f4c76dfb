// Pictures and comparisons of mappings.
#pragma once

#include <string>
#include <vector>

#include "imka/deploy/mapping.hpp"

namespace imka {

// Every used core as a square with its regions, one colour per matrix, a legend below. Self-contained SVG.
std::string floor_plan_svg(const Mapping& mapping, const std::string& title);

// Every used core as 16 lines of 32 characters, one letter per region, and a list of its regions.
std::string floor_plan_text(const Mapping& mapping);

// What differs between two mappings, one line per difference; empty if they are equal. Matrices are compared
// by name.
std::vector<std::string> mapping_differences(const Mapping& before, const Mapping& after);

}  // namespace imka

// Pictures and comparisons of mappings.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "imka/deploy/mapping.hpp"

namespace imka {

// The colour of a matrix in all pictures. Neighbouring matrices get hues far apart.
std::string matrix_colour(std::size_t matrix);
// The letter of a number in text pictures: A to Z, a to z, 0 to 9, then A again.
char picture_letter(std::size_t number);
// Escapes text for use as content or attribute in XML.
std::string xml_escaped(std::string_view text);

// Every used core as a square with its regions, one colour per matrix, a legend below. Self-contained SVG.
std::string floor_plan_svg(const Mapping& mapping, const std::string& title);

// Every used core as 16 lines of 32 characters, one letter per region, and a list of its regions.
std::string floor_plan_text(const Mapping& mapping);

// The differences between two mappings, one line each; empty if the mappings are equal. Matrices are compared
// by name.
std::vector<std::string> mapping_differences(const Mapping& before, const Mapping& after);

}  // namespace imka

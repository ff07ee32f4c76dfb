// Reads the manifest of data sets.
#pragma once

#include <string_view>
#include <vector>

#include "imka/data/registry.hpp"

namespace imka {

// Strict: unknown, duplicate or missing keys and values of the wrong type are Error{bad_config} with file and
// line.
std::vector<RegisteredSet> parse_manifest(std::string_view text, std::string_view where);

}  // namespace imka

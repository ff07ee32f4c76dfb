// Settings from YAML files: `key: value` lines set the fields of a configuration.
#pragma once

#include <filesystem>
#include <string_view>

#include "imka/base/config.hpp"

namespace imka {

// Unknown or duplicate keys and nested values are Error{bad_config} with the line. A list of scalars is
// joined with commas: [0, 3, 5..8] becomes "0,3,5..8".
void load_yaml(const std::filesystem::path& path, const Fields& fields);
void load_yaml_text(std::string_view text, std::string_view where, const Fields& fields);

}  // namespace imka

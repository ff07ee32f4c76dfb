// Reads the YAML file of a chip (format: docs/chip.md).
#pragma once

#include <filesystem>
#include <string_view>

#include "imka/chip/spec/chip.hpp"

namespace imka {

// Strict: unknown, duplicate or missing keys and values of the wrong type or unit or out of range are
// Error{bad_config} that names file and line (limits: io/yaml.hpp). The result is valid.
//
// A file may extend a base with `extends: hermes` and give only the differences. The base is a preset or, for
// a chip on disk, a file in the same folder. It may extend another, in chains of at most eight.
ChipSpec parse_chip(std::string_view text, std::string_view where);
ChipSpec load_chip(const std::filesystem::path& path);

}  // namespace imka

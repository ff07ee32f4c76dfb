// Reads the YAML file of a chip (docs/chip.md describes it).
#pragma once

#include <filesystem>
#include <string_view>

#include "imka/chip/spec/chip.hpp"

namespace imka {

// Strict: unknown, duplicate or missing keys and values of the wrong kind or unit or out of range are
// Error{bad_config} that names file and line (io/yaml.hpp has the limits). The result is valid.
//
// A file may say `extends: hermes` and then only what differs. The base is a preset or, for a chip on disk, a
// file in the same folder; it may extend another, in chains of eight at
// most.
ChipSpec parse_chip(std::string_view text, std::string_view where);
ChipSpec load_chip(const std::filesystem::path& path);

}  // namespace imka

// Reads the YAML file of a chip (docs/chip.md describes it).
#pragma once

#include <filesystem>
#include <string_view>

#include "imka/chip/spec/chip.hpp"

namespace imka {

// Strict: unknown, repeated or missing keys, values of the wrong kind or unit or out of range, aliases, deep
// nesting and files over 1 MiB are Error{bad_config} that names file and line. The result is valid.
ChipSpec parse_chip(std::string_view text, std::string_view where);
ChipSpec load_chip(const std::filesystem::path& path);

}  // namespace imka

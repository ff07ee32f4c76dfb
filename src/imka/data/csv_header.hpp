// Decides whether the first line of a CSV file holds names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace imka {

using CsvFields = std::vector<std::string>;

struct HeaderGuess {
    bool header = false;
    std::string_view reason;  // for a note
};

struct HeaderRules {
    std::optional<std::size_t> label;  // its column
    bool numbered = false;             // 0, 1, 2, ... can be names
};

// `lines`: the first line and some that follow; at least one, with at least one field. docs/formats.md has
// the rule.
HeaderGuess guess_header(std::span<const CsvFields> lines, const HeaderRules& rules);

// The second line (the first, if it is alone) has text in its last field that no feature can have.
bool last_is_text(std::span<const CsvFields> lines);

}  // namespace imka

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

// `lines`: the first line and some that follow; at least one, with at least one field. The rule is in
// docs/formats.md.
HeaderGuess guess_header(std::span<const CsvFields> lines, const HeaderRules& rules);

// Whether the last field of the second line (of the only line) is text, so it cannot be a feature.
bool last_is_text(std::span<const CsvFields> lines);

}  // namespace imka

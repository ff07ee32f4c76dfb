// Text in files and messages: numbers independent of the locale, CSV fields, escaped control characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "imka/base/names.hpp"

namespace imka {

enum class NumberFault { none, not_a_number, not_finite, too_large };

// Parses the whole text to the nearest float32; a leading '+' is allowed, blanks are not. Values that
// underflow become zero, values that overflow are too_large.
NumberFault parse_float(std::string_view text, float& value);
// The same in double precision; nullopt if the text is not a finite number.
std::optional<double> parse_double(std::string_view text);
// The message for a fault, e.g. "'abc' is not a number".
std::string describe(NumberFault fault, std::string_view text);

// Appends the shortest text that parses to the same bits.
void append_number(std::string& out, float value);

// A field of a CSV line, in double quotes if a reader would otherwise change it.
std::string csv_field(std::string_view text);

// Text that is safe on a terminal and in JSON: control characters (C0 except newline and tab, DEL, C1),
// characters that change the direction of text, and bytes that are not UTF-8 become \u001b.
std::string printable(std::string_view text);

// Removes blanks and tabs at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace imka

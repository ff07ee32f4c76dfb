// Numbers in text files: exact reading and shortest writing, the same in every locale.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace imka {

enum class NumberFault { none, not_a_number, not_finite, too_large };

// The whole text as the float32 nearest to it; a leading '+' is allowed, blanks are not. Values below
// float32's smallest become zero, values beyond its largest are too_large.
NumberFault parse_float(std::string_view text, float& value);
// The same in double precision; none where the text is not a finite number.
std::optional<double> parse_double(std::string_view text);
// What to tell a person, e.g. "'abc' is not a number".
std::string describe(NumberFault fault, std::string_view text);

// Appends the shortest text that reads back as the same bits.
void append_number(std::string& out, float value);

// Text from a file as it may stand in a message: in quotes, cut short, control characters as \x0a.
std::string in_quotes(std::string_view text);

// Without blanks and tabs at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace imka

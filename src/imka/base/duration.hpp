// Durations as text: "90", "30min", "1h", "7d", "1y".
#pragma once

#include <string>
#include <string_view>

namespace imka {

// Returns seconds; a plain number is in seconds. Error{bad_config} starts with `name`, the option or setting.
double parse_duration(std::string_view text, std::string_view name);

// "1 min", "1 h", "2.5 d", "1 y"
std::string duration_text(double seconds);

}  // namespace imka

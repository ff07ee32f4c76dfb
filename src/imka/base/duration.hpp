// Durations as people write them: "90", "30min", "1h", "7d", "1y".
#pragma once

#include <string>
#include <string_view>

namespace imka {

// Seconds; a plain number is in seconds. `name` is the option or setting, for the message of
// Error{bad_config}.
double parse_duration(std::string_view text, std::string_view name);

// "1 min", "1 h", "2.5 d", "1 y"
std::string duration_text(double seconds);

}  // namespace imka

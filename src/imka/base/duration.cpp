#include "imka/base/duration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"

namespace imka {
namespace {

struct Unit {
    std::string_view name;
    double seconds;
};
// Longest first. There is no "m": it could be a minute or a month.
constexpr std::array kUnits = {Unit{"y", 365.25 * 86400.0}, Unit{"d", 86400.0}, Unit{"h", 3600.0},
                               Unit{"min", 60.0}, Unit{"s", 1.0}};
constexpr double kLongest = 1e12;

}  // namespace

double parse_duration(std::string_view text, std::string_view name) {
    const auto last = text.find_last_not_of("abcdefghijklmnopqrstuvwxyz ");
    const auto number = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
    std::string unit(text.substr(number.size()));
    std::erase(unit, ' ');
    if (unit.empty()) unit = "s";
    const auto* found = std::ranges::find(kUnits, std::string_view(unit), &Unit::name);
    if (number.empty() || found == kUnits.end())
        fail(ErrorCode::bad_config,
             fmt::format("{}: '{}' is not a duration; expected, for example, 90, 30min, 1h, 7d or 1y", name,
                         text));
    const double seconds = detail::parse_number(number, name) * found->seconds;
    if (!(seconds >= 0.0 && seconds <= kLongest))
        fail(ErrorCode::bad_config,
             fmt::format("{}: '{}' is out of range; it must be from 0 to {:g} s", name, text, kLongest));
    return seconds;
}

std::string duration_text(double seconds) {
    for (const auto& unit : kUnits) {
        if (seconds >= unit.seconds * (1.0 - 1e-9))
            return fmt::format("{:.3g} {}", seconds / unit.seconds, unit.name);
    }
    return fmt::format("{:.3g} s", seconds);
}

}  // namespace imka

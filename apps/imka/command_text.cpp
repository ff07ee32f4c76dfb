#include "command_text.hpp"

#include <algorithm>
#include <vector>

namespace imka::app {
namespace {

// In single quotes where a shell would change it.
std::string shell_word(const std::string& text) {
    constexpr const char* kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./=:,@%+-";
    if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

}  // namespace

std::string command_text(const CLI::App& verb) {
    std::string positional;
    std::string options;
    std::vector<const CLI::Option*> done;
    for (const auto* option : verb.parse_order()) {
        if (std::ranges::find(done, option) != done.end()) continue;
        done.push_back(option);
        auto& out = option->get_positional() ? positional : options;
        if (!option->get_positional()) out += " " + option->get_name();
        if (option->get_items_expected_max() == 0) continue;  // a flag
        for (const auto& value : option->results()) out += " " + shell_word(value);
    }
    return "imka " + verb.get_name() + positional + options;
}

}  // namespace imka::app

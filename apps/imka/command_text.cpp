#include "command_text.hpp"

#include <algorithm>
#include <vector>

namespace imka::app {
namespace {

// Adds single quotes if a shell would change the text.
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
        const auto name = " " + option->get_name();
        const bool flag = option->get_items_expected_max() == 0;
        if (flag) options += name;
        for (std::size_t i = 0; !flag && i < option->results().size(); ++i) {
            const auto word = " " + shell_word(option->results()[i]);
            // Repeats the name for every value, or for every group of values.
            const bool first = i % static_cast<std::size_t>(option->get_items_expected_min()) == 0;
            if (option->get_positional())
                positional += word;
            else
                options += first ? name + word : word;
        }
    }
    return "imka " + verb.get_name() + positional + options;
}

}  // namespace imka::app

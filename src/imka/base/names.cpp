#include "imka/base/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"

namespace imka {
namespace {

// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (const char letter : a) {
        std::size_t diagonal = row[0]++;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t changed = diagonal + (letter == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
        }
    }
    return row.back();
}

std::size_t distance_to_name(std::string_view text, std::string_view name) {
    const auto dot = name.rfind('.');
    const auto whole = edit_distance(text, name);
    return dot == std::string_view::npos ? whole : std::min(whole, edit_distance(text, name.substr(dot + 1)));
}

}  // namespace

std::string in_quotes(std::string_view text) {
    constexpr std::size_t kMost = 40;
    std::string out = "'";
    for (const char c : text.substr(0, kMost)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte >= 0x7f) {
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
        } else {
            out += c;
        }
    }
    if (text.size() > kMost) out += "...";
    return out + "'";
}

std::string nearest_names(std::string_view text, std::span<const std::string_view> names) {
    constexpr std::size_t kMost = 3;
    constexpr std::size_t kLongest = 200;  // bounds the time; longer texts are not close to any name
    text = text.substr(0, kLongest);
    std::vector<std::pair<std::size_t, std::string_view>> near;
    for (const auto name : names) near.emplace_back(distance_to_name(text, name), name);
    std::stable_sort(near.begin(), near.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string_view> chosen;
    for (const auto& [distance, name] : near) {
        if (chosen.size() < kMost && distance <= near.front().first + 1) chosen.push_back(name);
    }
    return fmt::format("nearest: {}", join_names(chosen));
}

std::string join_names(std::span<const std::string_view> names, std::string_view separator) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i > 0) text += separator;
        text += names[i];
    }
    return text;
}

std::size_t find_name(std::string_view text, std::span<const std::string_view> names, std::string_view what) {
    const auto it = std::find(names.begin(), names.end(), text);
    if (it == names.end()) {
        fail(ErrorCode::bad_config,
             fmt::format("{} is not a known {}; known: {}", in_quotes(text), what, join_names(names)));
    }
    return static_cast<std::size_t>(it - names.begin());
}

}  // namespace imka

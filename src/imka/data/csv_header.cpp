#include "imka/data/csv_header.hpp"

#include <algorithm>
#include <cstdint>

#include "imka/data/columns.hpp"

namespace imka {
namespace {

bool is_number(std::string_view field) {
    float value = 0;
    return parse_float(field, value) != NumberFault::not_a_number && !is_missing(field);
}

bool is_text(std::string_view field) {
    return !is_number(field) && !is_missing(field);
}

// The number in a field such as 0, 7 or 2019; nullopt for any other field.
std::optional<std::uint64_t> plain_integer(std::string_view field) {
    constexpr std::size_t kMostDigits = 9;
    const bool digits = field.find_first_not_of("0123456789") == std::string_view::npos;
    if (field.empty() || field.size() > kMostDigits || !digits || (field[0] == '0' && field.size() > 1))
        return std::nullopt;
    return std::stoull(std::string(field));
}

// The fields other than the label are 0, 1, 2, ... or increasing years.
bool are_names(const CsvFields& first, std::optional<std::size_t> label) {
    constexpr std::uint64_t kFirstYear = 1000;
    constexpr std::uint64_t kLastYear = 2999;
    bool counts = true;
    bool years = true;
    std::uint64_t count = 0;
    std::uint64_t previous = 0;
    for (std::size_t c = 0; c < first.size(); ++c) {
        if (c == label) continue;
        const auto number = plain_integer(first[c]);
        if (!number) return false;
        counts = counts && *number == count;
        years = years && *number > previous && *number >= kFirstYear && *number <= kLastYear;
        previous = *number;
        ++count;
    }
    return count > 1 && (counts || years);
}

// All fields are `from`, `from` + 1, ...
bool counts_from(std::size_t from, const CsvFields& fields) {
    for (std::size_t c = 0; c < fields.size(); ++c) {
        if (fields[c] != std::to_string(from + c)) return false;
    }
    return true;
}

// 0, 1, 2, ... or 1, 2, 3, ... in at least four fields, unless one of the next lines continues the count or
// repeats the first line.
bool is_numbering(std::span<const CsvFields> lines) {
    constexpr std::size_t kLeastFields = 4;
    const auto& first = lines[0];
    const std::size_t from = first[0] == "1" ? 1 : 0;
    if (first.size() < kLeastFields || !counts_from(from, first)) return false;
    return std::ranges::none_of(lines.subspan(1), [&](const CsvFields& line) {
        return line == first || counts_from(from + first.size(), line);
    });
}

// Text above numbers. A text label above numbers is a name only if no text follows: classes can be 7 and A.
bool is_text_above_numbers(std::span<const CsvFields> lines, std::size_t column,
                           std::optional<std::size_t> label) {
    const auto below = lines.subspan(1, column == label ? lines.size() - 1 : 1);
    return is_text(lines[0][column]) && std::ranges::all_of(below, [&](const CsvFields& line) {
               return column < line.size() && is_number(line[column]);
           });
}

}  // namespace

HeaderGuess guess_header(std::span<const CsvFields> lines, const HeaderRules& rules) {
    const auto& first = lines[0];
    const auto label = rules.label;
    bool any_number = false;
    bool any_text = false;
    for (std::size_t c = 0; c < first.size(); ++c) {
        if (c == label && first.size() > 1) continue;
        any_number = any_number || !is_text(first[c]);
        any_text = any_text || is_text(first[c]);
    }
    if (!any_number) return {true, "none of its feature fields is a number"};
    if (lines.size() == 1) return {false, "it is the only line"};
    for (std::size_t c = 0; c < first.size(); ++c) {
        if (is_text_above_numbers(lines, c, label))
            return {true, "it has text where the next line has a number"};
    }
    const auto is_first_label = [&](const CsvFields& line) {
        return *label < line.size() && line[*label] == first[*label];
    };
    if (label && is_text(first[*label]) && are_names(first, label) &&
        std::ranges::none_of(lines.subspan(1), is_first_label)) {
        return {true, "its numbers look like names and its label does not occur again"};
    }
    if (rules.numbered && is_numbering(lines)) return {true, "its fields are numbered"};
    return {false, any_text ? "the next line has text in the same column" : "its feature fields are numbers"};
}

bool last_is_text(std::span<const CsvFields> lines) {
    const auto& line = lines[lines.size() > 1 ? 1 : 0];
    return is_text(line.back());
}

}  // namespace imka

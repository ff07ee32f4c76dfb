#include "imka/data/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "imka/base/error.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

std::optional<std::size_t> parse_column_number(std::string_view text) {
    std::size_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return number;
}

std::string known_columns(const ColumnSource& source) {
    constexpr std::size_t kMost = 20;
    if (source.names.empty()) return fmt::format("it has columns 1 to {} without names", source.count);
    std::string text = "it has";
    for (std::size_t c = 0; c < std::min(source.names.size(), kMost); ++c) {
        text += c == 0 ? " " : ", ";
        text += in_quotes(source.names[c]);
    }
    if (source.names.size() > kMost) text += fmt::format(" and {} more", source.names.size() - kMost);
    return text;
}

std::size_t find_column(std::string_view text, const ColumnSource& source) {
    const auto named = std::find(source.names.begin(), source.names.end(), text);
    if (named != source.names.end()) {
        if (std::find(named + 1, source.names.end(), text) != source.names.end()) {
            fail(ErrorCode::bad_config,
                 fmt::format("{}: two columns are named {}; use the column number (1 is the first)",
                             source.file, in_quotes(text)));
        }
        return static_cast<std::size_t>(named - source.names.begin());
    }
    const auto number = parse_column_number(text);
    if (number && *number >= 1 && *number <= source.count) return *number - 1;
    if (number == 0U) {
        fail(ErrorCode::bad_config,
             fmt::format("{}: there is no column 0; columns are counted from 1", source.file));
    }
    fail(ErrorCode::bad_config,
         fmt::format("{}: there is no column {}; {}", source.file, in_quotes(text), known_columns(source)));
}

std::optional<std::size_t> find_label(const ReadOptions& options, const ColumnSource& source,
                                      const std::vector<bool>& dropped) {
    const auto& text = options.label_column;
    if (text.empty()) {
        const auto left = static_cast<std::size_t>(std::ranges::count(dropped, false));
        const bool one_more = options.features && left == *options.features + std::size_t{1};
        const bool labelled = !dropped.back() && (source.last_is_text || one_more);
        return labelled ? std::optional(source.count - 1) : std::nullopt;
    }
    if (text == "none") return std::nullopt;
    if (text == "first") return 0;
    if (text == "last") return source.count - 1;
    return find_column(text, source);
}

bool is_name(std::string_view text) {
    return !text.empty() && text != "first" && text != "last" && text != "none" && !parse_column_number(text);
}

}  // namespace

Columns choose_columns(const ReadOptions& options, const ColumnSource& source) {
    if (source.count == 0) fail(ErrorCode::bad_data, fmt::format("{}: no columns", source.file));
    std::vector<bool> dropped(source.count);
    for (const auto& column : options.drop_columns) dropped[find_column(column, source)] = true;
    Columns columns;
    columns.label = find_label(options, source, dropped);
    if (columns.label && dropped[*columns.label]) {
        fail(ErrorCode::bad_config, fmt::format("{}: {} is the label and cannot be dropped too", source.file,
                                                column_text(*columns.label, source.names)));
    }
    for (std::size_t c = 0; c < source.count; ++c) {
        if (!dropped[c] && c != columns.label) columns.features.push_back(c);
    }
    if (columns.features.empty()) {
        fail(ErrorCode::bad_data, fmt::format("{}: no column left for features; the file has {} column{}",
                                              source.file, source.count, source.count == 1 ? "" : "s"));
    }
    return columns;
}

bool needs_names(const ReadOptions& options) {
    return is_name(options.label_column) ||
           std::any_of(options.drop_columns.begin(), options.drop_columns.end(), is_name);
}

void decide_label(const Columns& columns, ReadOptions& options) {
    options.label_column = columns.label ? std::to_string(*columns.label + 1) : "none";
}

std::string label_text(const Columns& columns, std::span<const std::string> names) {
    if (columns.label) return "the label is " + column_text(*columns.label, names);
    return fmt::format("no label; {} features", columns.features.size());
}

bool is_missing(std::string_view text) {
    constexpr auto kMissing = std::to_array<std::string_view>({"", "?", "na", "n/a", "null", "nan", "-nan"});
    std::string lower(text.substr(0, 5));
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return std::ranges::find(kMissing, lower) != kMissing.end();
}

bool is_bad_label(std::string_view label) {
    float value = 0;
    return label.empty() || parse_float(label, value) == NumberFault::not_finite;
}

NumberFault parse_value(std::string_view text, Missing missing, float& value) {
    const auto fault = parse_float(text, value);
    if (fault == NumberFault::none || missing == Missing::error || !is_missing(text)) return fault;
    value = std::numeric_limits<float>::quiet_NaN();
    return NumberFault::none;
}

std::string describe_value(NumberFault fault, std::string_view text, const ReadOptions& options) {
    const bool missing = is_missing(text);
    auto message = missing && fault == NumberFault::not_a_number && !text.empty()
                       ? in_quotes(text) + " is a missing value"
                       : describe(fault, text);
    if (!options.advise) return message;
    if (missing) {
        message += "; --missing drop skips such rows, --missing mean uses the mean of the column";
    } else if (fault == NumberFault::not_a_number) {
        message += "; use --label-column to choose the label, --drop-columns to skip columns";
    }
    return message;
}

std::string column_text(std::size_t column, std::span<const std::string> names) {
    if (column >= names.size()) return fmt::format("column {}", column + 1);
    return fmt::format("column {} ({})", column + 1, in_quotes(names[column]));
}

}  // namespace imka

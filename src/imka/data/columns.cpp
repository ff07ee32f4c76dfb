#include "imka/data/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

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
    if (source.names.empty()) return fmt::format("it has columns 0 to {} without names", source.count - 1);
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
                 fmt::format("{}: two columns are named {}; use the column number (0 is the first)",
                             source.file, in_quotes(text)));
        }
        return static_cast<std::size_t>(named - source.names.begin());
    }
    if (const auto number = parse_column_number(text); number && *number < source.count) return *number;
    fail(ErrorCode::bad_config,
         fmt::format("{}: there is no column {}; {}", source.file, in_quotes(text), known_columns(source)));
}

std::optional<std::size_t> find_label(std::string_view text, const ColumnSource& source) {
    if (text.empty()) text = source.default_label;
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
    Columns columns;
    columns.label = find_label(options.label_column, source);
    std::vector<bool> is_feature(source.count, true);
    for (const auto& dropped : options.drop_columns) {
        const auto column = find_column(dropped, source);
        if (column == columns.label) {
            fail(ErrorCode::bad_config, fmt::format("{}: {} is the label and cannot be dropped too",
                                                    source.file, column_text(column, source.names)));
        }
        is_feature[column] = false;
    }
    if (columns.label) is_feature[*columns.label] = false;
    for (std::size_t c = 0; c < source.count; ++c) {
        if (is_feature[c]) columns.features.push_back(c);
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

bool is_missing_label(std::string_view label) {
    if (label.empty()) return true;
    float value = 0;
    return parse_float(label, value) == NumberFault::not_finite;
}

std::string column_text(std::size_t column, std::span<const std::string> names) {
    if (column >= names.size()) return fmt::format("column {}", column);
    return fmt::format("column {} ({})", column, in_quotes(names[column]));
}

}  // namespace imka

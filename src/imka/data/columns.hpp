// Which columns of a table are features and which is the label.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/data/row_reader.hpp"

namespace imka {

struct ColumnSource {
    std::string_view file;               // for messages
    std::size_t count = 0;               // columns of the file
    std::span<const std::string> names;  // one per column, or none
    std::string_view default_label;      // for an empty ReadOptions::label_column
};

struct Columns {
    std::vector<std::size_t> features;  // ascending columns of the file; at least one
    std::optional<std::size_t> label;
};

// Error{bad_config} if the options name a missing column, and Error{bad_data} if no column is left for
// features.
Columns choose_columns(const ReadOptions& options, const ColumnSource& source);

// True if a column option can only be a column name.
bool needs_names(const ReadOptions& options);

// A label that means a missing value: "nan", "inf", empty.
bool is_missing_label(std::string_view label);

// "column 3 ('width')": 0-based as in the options, with the name, if any.
std::string column_text(std::size_t column, std::span<const std::string> names);

}  // namespace imka

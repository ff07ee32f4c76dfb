// Which columns of a table are features and which is the label.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/data/row_reader.hpp"
#include "imka/io/text.hpp"

namespace imka {

struct ColumnSource {
    std::string_view file;               // for messages
    std::size_t count = 0;               // columns of the file
    std::span<const std::string> names;  // one per column, or none
    bool last_is_text = false;           // the last column cannot be a feature
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

// Sets the label column of the options to the chosen one.
void decide_label(const Columns& columns, ReadOptions& options);

// "the label is column 3 ('width')", for a note.
std::string label_text(const Columns& columns, std::span<const std::string> names);

// Text for a missing value: empty, ?, NA, N/A, null, nan, in any case.
bool is_missing(std::string_view text);
// A label must be neither missing nor infinite.
bool is_bad_label(std::string_view label);

// Parses a value. A missing one becomes NaN, unless it is an error.
NumberFault parse_value(std::string_view text, Missing missing, float& value);
// "'NA' is not a number", followed by the options that help.
std::string describe_value(NumberFault fault, std::string_view text, const ReadOptions& options);

// "column 3 ('width')": counted from 1 as in the options, with the name, if any.
std::string column_text(std::size_t column, std::span<const std::string> names);

}  // namespace imka

// Reads tables of any format and compression row by row. Memory use does not depend on the file size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

enum class Format { libsvm, arff, csv, npy };
template <>
struct EnumNames<Format> {
    static constexpr std::string_view what = "format";
    static constexpr std::string_view values[] = {"libsvm", "arff", "csv", "npy"};
};

// One row. Spans and views are valid until the next call of next().
struct Row {
    std::span<const float> values;           // dense: one per column; sparse: one per index
    std::span<const std::uint32_t> indices;  // sparse: 0-based columns, ascending; dense: empty
    bool sparse = false;
    std::string_view label;  // as written; empty if the row has none
    std::uint64_t line = 0;  // 1-based line (row for NPY), for messages
};

// The values of a row, zeros included.
void copy_row(const Row& row, std::span<float> out);

struct ReadOptions {
    std::optional<Format> format = {};  // absent: from the file name
    // Column that holds the label: a name, a 0-based number, "first", "last" or "none". Ignored for LIBSVM,
    // whose rows begin with the label; CSV and ARFF default to "last", NPY to "none".
    std::string label_column = {};
    // CSV, ARFF, NPY: columns to skip, by name or 0-based number.
    std::vector<std::string> drop_columns = {};
    char delimiter = '\0';  // CSV: '\0' = detect from the first line (comma, tab, semicolon, blanks)
    std::optional<bool> header = {};  // CSV: first line holds names; absent: detect
    // Number of feature columns. LIBSVM: a larger index is an error; other formats: a different number is an
    // error.
    std::optional<std::uint32_t> features = {};
    std::uint64_t max_bytes = 1ULL << 40U;  // limit after decompression (against decompression bombs)
};

// Error{bad_data} messages begin with "<file>: line <n>: " ("<file>: row <n>: " for NPY), or with "<file>: "
// if the whole file is invalid; Error{io} if it cannot be read; Error{bad_config} if an option does not fit
// the file. NaN and infinite values, values beyond float32, and files without rows are errors.
class RowReader {
public:
    virtual ~RowReader() = default;
    virtual bool next(Row& row) = 0;  // false at the end
    // Number of feature columns, if known before the end; nullopt for LIBSVM without ReadOptions::features.
    virtual std::optional<std::uint32_t> features() const = 0;
    virtual std::vector<std::string> feature_names() const { return {}; }
};

std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, const ReadOptions& options);
// The same from a stream; the format must be set or follow from the stream's name.
std::unique_ptr<RowReader> open_rows(ByteStream stream, const ReadOptions& options);

// The format for a name such as "a/b.libsvm.xz"; nullopt if the extension is unknown.
std::optional<Format> format_of(const std::filesystem::path& path);

}  // namespace imka

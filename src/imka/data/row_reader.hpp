// Tables read row by row, whatever the format and compression, in memory that does not grow with the file.
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
    std::span<const float> values;           // dense: one a column; sparse: one an index
    std::span<const std::uint32_t> indices;  // sparse: 0-based columns, ascending; dense: empty
    bool sparse = false;
    std::string_view label;  // as written; empty where the row has none
    std::uint64_t line = 0;  // 1-based line (row for NPY), for messages
};

// The values of a row, zeros included.
void copy_row(const Row& row, std::span<float> out);

struct ReadOptions {
    std::optional<Format> format = {};  // by the file's name when absent
    // Column that holds the label: a name, a 0-based number, "first", "last" or "none". LIBSVM rows begin
    // with it always (this is ignored); CSV and ARFF default to "last", NPY to "none".
    std::string label_column = {};
    // CSV, ARFF, NPY: columns to leave out, by name or 0-based number.
    std::vector<std::string> drop_columns = {};
    char delimiter = '\0';            // CSV: '\0' = found from the first line (comma, tab, semicolon, blanks)
    std::optional<bool> header = {};  // CSV: first line holds names; found from the first line when absent
    // Number of feature columns. LIBSVM: an index beyond it is an error; other formats: another number is.
    std::optional<std::uint32_t> features = {};
    std::uint64_t max_bytes = 1ULL << 40U;  // most bytes after decompression (a compression bomb is an error)
};

// Errors are Error{bad_data} that begin with "<file>: line <n>: " ("<file>: row <n>: " for NPY), or with
// "<file>: " where the file as a whole is wrong; Error{io} where it cannot be read; Error{bad_config} where
// an option does not fit it. NaN and infinite values, values beyond float32, and files without rows are
// errors.
class RowReader {
public:
    virtual ~RowReader() = default;
    virtual bool next(Row& row) = 0;  // false at the end
    // Columns of features, where the format says so before the end; LIBSVM without ReadOptions::features:
    // none.
    virtual std::optional<std::uint32_t> features() const = 0;
    virtual std::vector<std::string> feature_names() const { return {}; }
};

std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, const ReadOptions& options);
// The same from a stream; the format must be given or follow from the stream's name.
std::unique_ptr<RowReader> open_rows(ByteStream stream, const ReadOptions& options);

// The format that a name such as "a/b.libsvm.xz" stands for; none when its ending says nothing.
std::optional<Format> format_of(const std::filesystem::path& path);

}  // namespace imka

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

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/names.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

enum class Format { libsvm, arff, csv, npy };
template <>
struct EnumNames<Format> {
    static constexpr std::string_view what = "format";
    static constexpr std::string_view values[] = {"libsvm", "arff", "csv", "npy"};
};

// Whether the first line of a CSV file holds names. auto: see docs/formats.md.
enum class Header { auto_, yes, no };
template <>
struct EnumNames<Header> {
    static constexpr std::string_view what = "header";
    static constexpr std::string_view values[] = {"auto", "yes", "no"};
};

// What to do about a row with a missing value.
enum class Missing {
    error,
    drop,  // skip the row
    mean,  // the value is NaN until the mean of its column is known (load_dataset, for_each_block)
};
template <>
struct EnumNames<Missing> {
    static constexpr std::string_view what = "treatment of missing values";
    static constexpr std::string_view values[] = {"error", "drop", "mean"};
};

// A list of names: "id,name".
template <>
struct Codec<std::vector<std::string>> {
    static std::string type() { return "NAME,..."; }
    static std::vector<std::string> parse(std::string_view text, std::string_view name);
    static std::string json(const std::vector<std::string>& v);
    static void check(const std::vector<std::string>&, const FieldInfo&, std::string_view) {}
};

// One row. Spans and views are valid until the next call of next().
struct Row {
    std::span<const float> values;           // dense: one per column; sparse: one per index
    std::span<const std::uint32_t> indices;  // sparse: 0-based columns, ascending; dense: empty
    bool sparse = false;
    bool missing = false;    // a value is missing (NaN), or the label
    std::string_view label;  // as written; empty if the row has none
    std::uint64_t line = 0;  // 1-based line (row for NPY), for messages
};

// The values of a row, zeros included.
void copy_row(const Row& row, std::span<float> out);

struct ReadOptions {
    std::optional<Format> format = {};  // absent: from the file name
    // Column that holds the label: a name, a number (1 is the first), "first", "last" or "none". Ignored for
    // LIBSVM, whose rows begin with the label. Empty: the last column if it holds text, or if the file has
    // one column more than `features`; otherwise none.
    std::string label_column = {};
    Header header = Header::auto_;  // CSV
    // CSV, ARFF, NPY: columns to skip, by name or number (1 is the first).
    std::vector<std::string> drop_columns = {};
    Missing missing = Missing::error;
    char delimiter = '\0';  // CSV: '\0' = detect from the first line (comma, tab, semicolon, blanks)
    // Number of feature columns. LIBSVM: a larger index is an error; other formats: a different number is an
    // error.
    std::optional<std::uint32_t> features = {};
    std::uint64_t max_bytes = 1ULL << 40U;        // limit after decompression (against decompression bombs)
    std::filesystem::path spool_folder = "/tmp";  // for copies of pipes that are read more than once
    bool advise = false;                          // the user can set these options: messages may name them
    bool operator==(const ReadOptions&) const = default;
};
// The settings of a file: format, label_column, header, drop_columns, missing.
Fields fields(ReadOptions& options);

// Error{bad_data} messages begin with "<file>: line <n>: " ("<file>: row <n>: " for NPY), or with "<file>: "
// if the whole file is invalid; Error{io} if it cannot be read; Error{bad_config} if an option does not fit
// the file. Infinite values, values beyond float32, and files without rows are errors. Notes report what
// depends on the file: header, label column, dropped rows.
class RowReader {
public:
    virtual ~RowReader() = default;
    virtual bool next(Row& row) = 0;  // false at the end
    // Number of feature columns, if known before the end; nullopt for LIBSVM without ReadOptions::features.
    virtual std::optional<std::uint32_t> features() const = 0;
    // Number of rows, if known before the end (NPY).
    virtual std::optional<std::uint64_t> rows() const { return std::nullopt; }
    virtual std::vector<std::string> feature_names() const { return {}; }
    // Sets what the options left to the file: header and label column.
    virtual void decide(ReadOptions& /*options*/) const {}
};

std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, const ReadOptions& options,
                                     const Exec& exec = {});
std::unique_ptr<RowReader> open_rows(const InputFile& file, const ReadOptions& options,
                                     const Exec& exec = {});
// The same from a stream; the format must be set or follow from the stream's name.
std::unique_ptr<RowReader> open_rows(ByteStream stream, const ReadOptions& options, const Exec& exec = {});

// The format for a name such as "a/b.libsvm.xz"; nullopt if the extension is unknown.
std::optional<Format> format_of(const std::filesystem::path& path);

}  // namespace imka

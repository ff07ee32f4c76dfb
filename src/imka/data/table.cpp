#include "imka/data/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/sha256.hpp"
#include "imka/data/columns.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

static_assert(std::endian::native == std::endian::little, "the hash takes little-endian bytes");

// Tables are dense: more columns than this indicate a damaged index.
constexpr std::uint64_t kMaxColumns = std::uint64_t{1} << 24U;
constexpr std::size_t kCheckRows = 4096;  // rows between checks for cancellation

void check_memory(std::size_t rows, std::size_t cols, std::string_view file) {
    try {
        check_fits_memory(static_cast<double>(rows), static_cast<double>(cols), sizeof(float),
                          fmt::format("{}: the table", file));
    } catch (const Error& e) {
        fail(ErrorCode::bad_data, e.what());
    }
}

void check_columns(std::uint64_t columns, std::uint64_t line, std::string_view file) {
    if (columns <= kMaxColumns) return;
    fail(ErrorCode::bad_data, fmt::format("{}: line {}: {} columns; a table in memory has at most {}", file,
                                          line, columns, kMaxColumns));
}

// Rows with a known number of columns.
Matrix<float> read_known_columns(RowReader& reader, std::string_view file, const Exec& exec,
                                 std::vector<std::string>& labels) {
    const std::size_t cols = *reader.features();
    check_columns(cols, 1, file);
    check_memory(reader.rows().value_or(1), cols, file);  // refuse before reading
    Matrix<float> x(0, cols);
    std::size_t rows = 0;
    Row row;
    while (reader.next(row)) {
        if (rows % kCheckRows == 0) check_cancelled(exec);
        if (rows == x.rows()) {
            const auto more = std::max<std::size_t>(1, 2 * rows);
            check_memory(rows + 1, cols, file);
            x.resize_rows(more);
        }
        copy_row(row, x.row(rows++));
        if (!row.label.empty()) labels.push_back(canonical_label(row.label));
    }
    x.resize_rows(rows);
    return x;
}

// Sparse rows, stored until the largest index is known.
struct SparseRows {
    std::vector<float> values;
    std::vector<std::uint32_t> indices;
    std::vector<std::size_t> ends;  // of each row in values
    std::size_t cols = 0;
};

Matrix<float> dense(const SparseRows& sparse) {
    Matrix<float> x(sparse.ends.size(), sparse.cols);
    std::size_t k = 0;
    for (std::size_t r = 0; r < sparse.ends.size(); ++r) {
        const auto out = x.row(r);
        for (; k < sparse.ends[r]; ++k) out[sparse.indices[k]] = sparse.values[k];
    }
    return x;
}

Matrix<float> read_unknown_columns(RowReader& reader, std::string_view file, const Exec& exec,
                                   std::vector<std::string>& labels) {
    SparseRows sparse;
    Row row;
    while (reader.next(row)) {
        if (sparse.ends.size() % kCheckRows == 0) check_cancelled(exec);
        if (!row.indices.empty()) sparse.cols = std::max<std::size_t>(sparse.cols, row.indices.back() + 1ULL);
        check_columns(sparse.cols, row.line, file);
        sparse.values.insert(sparse.values.end(), row.values.begin(), row.values.end());
        sparse.indices.insert(sparse.indices.end(), row.indices.begin(), row.indices.end());
        sparse.ends.push_back(sparse.values.size());
        labels.push_back(canonical_label(row.label));
    }
    if (sparse.cols == 0) fail(ErrorCode::bad_data, fmt::format("{}: no row has a feature", file));
    check_memory(sparse.ends.size(), sparse.cols, file);
    return dense(sparse);
}

Table read_all(RowReader& reader, std::string_view file, const Exec& exec) {
    Table table;
    table.feature_names = reader.feature_names();
    table.x = reader.features() ? read_known_columns(reader, file, exec, table.labels)
                                : read_unknown_columns(reader, file, exec, table.labels);
    return table;
}

void append_u64(std::string& out, std::uint64_t value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof(value)>>(value);
    out.append(bytes.data(), bytes.size());
}

// Checks of both writers.
void check_writable(const std::filesystem::path& path, const Table& table) {
    const auto refuse = [&](const std::string& reason) {
        fail(ErrorCode::bad_usage, fmt::format("{}: {}", path.string(), reason));
    };
    if (table.x.rows() == 0 || table.x.cols() == 0) refuse("cannot write a table without rows or columns");
    if (!table.labels.empty() && table.labels.size() != table.x.rows()) {
        refuse(fmt::format("{} labels for {} rows", table.labels.size(), table.x.rows()));
    }
    const auto values = table.x.values();
    const auto bad = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
    if (bad != values.end()) {
        const auto at = static_cast<std::size_t>(bad - values.begin());
        refuse(fmt::format("row {}, column {}: the value is not finite", at / table.x.cols() + 1,
                           at % table.x.cols() + 1));
    }
}

void check_label_text(const std::filesystem::path& path, std::string_view label, std::string_view forbidden) {
    if (!is_bad_label(label) && label.find_first_of(forbidden) == std::string_view::npos) return;
    fail(ErrorCode::bad_usage,
         fmt::format("{}: the label {} cannot be written in this format", path.string(), in_quotes(label)));
}

bool is_zero(float value) {
    return std::bit_cast<std::uint32_t>(value) == 0;  // -0 is written to keep its sign
}

// Text of the form [+-]digits, which may be too long for a double.
std::optional<std::string> canonical_integer(std::string_view text) {
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
    return fmt::format("{}{}", negative && text != "0" ? "-" : "", text);
}

}  // namespace

std::string canonical_label(std::string_view text) {
    if (auto integer = canonical_integer(text)) return *std::move(integer);
    const auto value = parse_double(text);
    if (!value) return std::string(text);
    constexpr double kExactIntegers = 9007199254740992.0;  // 2^53
    if (std::trunc(*value) == *value && std::abs(*value) <= kExactIntegers) {
        return std::to_string(static_cast<std::int64_t>(*value));
    }
    std::array<char, 32> shortest{};
    const auto end = std::to_chars(shortest.data(), shortest.data() + shortest.size(), *value);
    return {shortest.data(), end.ptr};
}

Table read_table(const std::filesystem::path& path, const ReadOptions& options, const Exec& exec) {
    const auto reader = open_rows(path, options, exec);
    return read_all(*reader, path.string(), exec);
}

Table read_table(ByteStream stream, const ReadOptions& options, const Exec& exec) {
    const auto name = stream.name();
    const auto reader = open_rows(std::move(stream), options, exec);
    return read_all(*reader, name, exec);
}

std::string table_sha256(const Table& table) {
    Sha256 hash;
    std::string bytes;
    append_u64(bytes, table.x.rows());
    append_u64(bytes, table.x.cols());
    hash.update(bytes);
    std::vector<float> row(table.x.cols());
    for (std::size_t r = 0; r < table.x.rows(); ++r) {
        const auto values = table.x.row(r);
        std::transform(values.begin(), values.end(), row.begin(), [](float v) { return v == 0 ? 0.0F : v; });
        hash.update(std::as_bytes(std::span<const float>(row)));
    }
    bytes.clear();
    append_u64(bytes, table.labels.size());
    hash.update(bytes);
    for (const auto& label : table.labels) {
        bytes.clear();
        append_u64(bytes, label.size());
        hash.update(bytes + label);
    }
    return hash.hex();
}

void write_libsvm(const std::filesystem::path& path, const Table& table) {
    check_writable(path, table);
    if (table.labels.empty()) {
        fail(ErrorCode::bad_usage,
             fmt::format("{}: LIBSVM rows begin with a label, but the table has none", path.string()));
    }
    AtomicFile file(path);
    std::string line;
    for (std::size_t r = 0; r < table.x.rows(); ++r) {
        check_label_text(path, table.labels[r], " \t\r\n:#");
        line = table.labels[r];
        const auto values = table.x.row(r);
        for (std::size_t c = 0; c < values.size(); ++c) {
            const bool tells_columns = r == 0 && c + 1 == values.size();
            if (is_zero(values[c]) && !tells_columns) continue;
            line += ' ';
            line += std::to_string(c + 1);
            line += ':';
            append_number(line, values[c]);
        }
        line += '\n';
        file.write(line);
    }
    file.commit();
}

void write_csv(const std::filesystem::path& path, const Table& table) {
    check_writable(path, table);
    AtomicFile file(path);
    std::string line;
    for (std::size_t c = 0; c < table.x.cols(); ++c) {
        if (c > 0) line += ',';
        line += fmt::format("f{}", c);
    }
    file.write(line + (table.labels.empty() ? "\n" : ",label\n"));
    for (std::size_t r = 0; r < table.x.rows(); ++r) {
        line.clear();
        for (const float value : table.x.row(r)) {
            if (!line.empty()) line += ',';
            append_number(line, value);
        }
        if (!table.labels.empty()) {
            check_label_text(path, table.labels[r], "");
            line += ',' + csv_field(table.labels[r]);
        }
        line += '\n';
        file.write(line);
    }
    file.commit();
}

}  // namespace imka

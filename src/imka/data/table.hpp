// A table in memory: numbers and labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/data/row_reader.hpp"

namespace imka {

struct Table {
    Matrix<float> x;                  // rows x features
    std::vector<std::string> labels;  // canonical text (canonical_label); empty if the file has none
    std::vector<std::string> feature_names = {};  // empty if the file has none
};

// "1.0", "+1" and "1" are one class: numbers in their shortest form, other text unchanged.
std::string canonical_label(std::string_view text);

// Reads the whole file. For LIBSVM without ReadOptions::features, the largest index is the number of columns.
// With Missing::mean, missing values are NaN. Error{bad_data} if the table exceeds this machine's memory or
// 2^24 columns.
Table read_table(const std::filesystem::path& path, const ReadOptions& options, const Exec& exec = {});
Table read_table(ByteStream stream, const ReadOptions& options, const Exec& exec = {});

// SHA-256 over the shape, the float32 values (little-endian, row by row) and the labels. Public copies of a
// data set differ in line ends, headers and number spelling; their parsed tables agree. The bytes, in order:
//   u64 rows, u64 columns                        little-endian
//   rows * columns float32 values                row by row, little-endian, -0 as +0
//   u64 number of labels                         0 or rows
//   per label: u64 length in bytes, the bytes    canonical text, UTF-8 as in the file
std::string table_sha256(const Table& table);

// Writers for `imka data export`, atomic; reading back gives the same bits. Error{bad_usage} for a table
// without rows or columns, with values that are not finite, or with labels that the format cannot hold.
// LIBSVM needs labels; zeros are omitted, except in the last column of the first row, which gives the number
// of columns. CSV: names f0.. and label last; values in shortest exact form.
void write_libsvm(const std::filesystem::path& path, const Table& table);
void write_csv(const std::filesystem::path& path, const Table& table);

}  // namespace imka

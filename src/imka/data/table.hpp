// A table in memory: numbers and labels as they were written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/data/row_reader.hpp"

namespace imka {

struct Table {
    Matrix<float> x;                  // rows x features
    std::vector<std::string> labels;  // canonical text (canonical_label); empty when the file has none
};

// "1.0", "+1" and "1" are one class: numbers in their shortest form, other text as it is.
std::string canonical_label(std::string_view text);

Table read_table(const std::filesystem::path& path, const ReadOptions& options);

// SHA-256 over the shape, the float32 values (little-endian, row by row) and the labels. Public copies of a
// data set differ in line ends, headers and number spelling; their parsed tables agree.
std::string table_sha256(const Table& table);

// Writers for `imka data export`, atomic. CSV: names f0.. and label last; values in shortest exact form.
void write_libsvm(const std::filesystem::path& path, const Table& table);
void write_csv(const std::filesystem::path& path, const Table& table);

}  // namespace imka

// NPY files (format versions 1 to 3; little-endian f4, f8, integer and bool types; C order).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "imka/base/file.hpp"
#include "imka/base/matrix.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

// Rows of a table; a vector is one column. Reads the header at once.
std::unique_ptr<RowReader> read_npy_rows(ByteStream stream, const ReadOptions& options);

// Whole file as float32 rows; a vector is one column, and there may be no rows. Shape and size are checked
// against the file before any memory is taken; from compressed files memory is taken as the data arrive.
Matrix<float> read_npy(const std::filesystem::path& path);

void write_npy(const std::filesystem::path& path, MatrixView<const float> values);

// Rows written as they come; the header gets the row count at commit().
class NpyWriter {
public:
    NpyWriter(const std::filesystem::path& path, std::uint64_t cols);
    void append(MatrixView<const float> rows);
    void commit();

private:
    AtomicFile file_;
    std::uint64_t rows_ = 0;
    std::uint64_t cols_;
};

}  // namespace imka

// NPY files (format versions 1 to 3; little-endian f4, f8, integer and bool types; C order).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "imka/base/file.hpp"
#include "imka/base/matrix.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

struct NpyHeader {
    using Convert = void (*)(std::span<const char> bytes, std::vector<float>& out);
    std::uint64_t rows = 0;
    std::uint64_t cols = 0;  // 1 for a vector
    std::size_t value_bytes = 0;
    Convert convert = nullptr;  // appends values as float32
};

// Whether a NaN in a file is an error or an ordinary value.
enum class NanValues { refuse, keep };

// Reads values row by row; the constructor reads the header. Memory use depends on the actual data, not on
// the sizes in the header.
class NpyRows {
public:
    explicit NpyRows(ByteStream stream, NanValues nan = NanValues::refuse);

    const NpyHeader& header() const { return header_; }
    const ByteStream& stream() const { return stream_; }
    std::uint64_t row() const { return row_; }  // 1-based number of the last row

    // The next row, valid until the next call; false at the end. Error{bad_data} if bytes follow the last
    // row.
    bool next(std::span<const float>& row);

private:
    ByteStream stream_;
    NpyHeader header_;
    NanValues nan_;
    std::uint64_t row_ = 0;
    std::vector<char> bytes_;
    std::vector<float> values_;
};

// Reads the whole file as float32 rows, possibly none; a vector is one column. The shape is checked against
// the file size before memory is allocated; for compressed files memory grows with the data.
Matrix<float> read_npy(const std::filesystem::path& path);

void write_npy(const std::filesystem::path& path, MatrixView<const float> values);

// An array of any number of dimensions, as stored.
struct NpyArray {
    std::string type;                       // "f4", "f8", "i1" ... "u8", "b1"
    std::vector<std::uint64_t> shape = {};  // empty: one value
    std::vector<char> bytes = {};
};
// The size is checked against the file before memory is allocated; for compressed files memory grows with the
// data.
NpyArray read_npy_array(const std::filesystem::path& path);
NpyArray read_npy_array(ByteStream stream);
void write_npy_array(const std::filesystem::path& path, const NpyArray& array);

// Writes rows as they arrive; commit() writes the row count into the header.
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

// Rows of an NPY file as a table.
#pragma once

#include <memory>

#include "imka/data/row_reader.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

// A vector is one column. Reads the header immediately.
std::unique_ptr<RowReader> read_npy_rows(ByteStream stream, const ReadOptions& options,
                                         const Exec& exec = {});

}  // namespace imka

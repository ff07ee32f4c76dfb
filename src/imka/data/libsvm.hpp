// LIBSVM text: a line is `label index:value ...` with increasing indices from 1; omitted values are zero.
#pragma once

#include <memory>

#include "imka/data/row_reader.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

// Rows are sparse. ReadOptions::features limits the index.
std::unique_ptr<RowReader> read_libsvm(ByteStream stream, const ReadOptions& options);

}  // namespace imka

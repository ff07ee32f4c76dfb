// LIBSVM text: a line is `label index:value ...` with ascending indices from 1; what is left out is zero.
#pragma once

#include <memory>

#include "imka/data/row_reader.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

// Rows are sparse. ReadOptions::features bounds the index.
std::unique_ptr<RowReader> read_libsvm(ByteStream stream, const ReadOptions& options);

}  // namespace imka

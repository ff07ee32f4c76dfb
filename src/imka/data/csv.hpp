// Delimited text: comma, tab, semicolon or blanks between fields; quotes as in RFC 4180.
#pragma once

#include <memory>

#include "imka/data/row_reader.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

// Reads the first line immediately: delimiter, header and columns are then known.
std::unique_ptr<RowReader> read_csv(ByteStream stream, const ReadOptions& options, const Exec& exec = {});

}  // namespace imka

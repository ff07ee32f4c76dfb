// ARFF (attribute-relation files): a header that declares the columns, then dense or sparse rows.
#pragma once

#include <memory>

#include "imka/data/row_reader.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

// Reads the header immediately. Sparse rows are returned dense; omitted values are 0, or the first declared
// value of a nominal attribute.
std::unique_ptr<RowReader> read_arff(ByteStream stream, const ReadOptions& options, const Exec& exec = {});

}  // namespace imka

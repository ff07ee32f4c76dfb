// Reads rows from text in memory, for tests of the readers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "imka/data/row_reader.hpp"
#include "imka/data/table.hpp"

namespace imka {

inline Table table_of(std::string_view bytes, const ReadOptions& options) {
    return read_table(ByteStream("memory", bytes, {.max_bytes = options.max_bytes}), options);
}

inline std::vector<float> values_of(const Table& table) {
    return {table.x.values().begin(), table.x.values().end()};
}

using Floats = std::vector<float>;
using Texts = std::vector<std::string>;

}  // namespace imka

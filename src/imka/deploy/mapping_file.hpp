// Files of mappings, in the JSON form of the mappings published with the paper (docs/formats.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "imka/deploy/mapping.hpp"

namespace imka {

// Cores have a row and a column in these files: chips one below the other, each a square of ceil(sqrt(cores))
// columns.
std::string mapping_text(const Mapping& mapping);
// Reads the matrices, whose sizes are those of their weights in the file. The number of chips is the least
// with the named cores. Error{bad_data} that names `where` for text of another form and positions out of
// range; verify_legal checks the rest.
Mapping parse_mapping(std::string_view text, const CoreGrid& grid, std::string_view where);

void save_mapping(const std::filesystem::path& path, const Mapping& mapping);
Mapping load_mapping(const std::filesystem::path& path, const CoreGrid& grid);

}  // namespace imka

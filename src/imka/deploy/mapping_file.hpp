// Mapping files, in the JSON format of the mappings published with the paper (docs/formats.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "imka/deploy/mapping.hpp"

namespace imka {

// These files identify cores by row and column: chips are one below the other, each a square with
// ceil(sqrt(cores)) columns.
std::string mapping_text(const Mapping& mapping);
// The sizes of the matrices follow from their weights in the file; the number of chips is the smallest that
// has all cores in it. Error{bad_data} that names `where` for malformed text and positions out of range;
// verify_legal checks the rest.
Mapping parse_mapping(std::string_view text, const CoreGrid& grid, std::string_view where);

void save_mapping(const std::filesystem::path& path, const Mapping& mapping);
Mapping load_mapping(const std::filesystem::path& path, const CoreGrid& grid);

}  // namespace imka

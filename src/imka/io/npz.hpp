// NPZ files: several NPY arrays in a ZIP file, stored or deflated.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "imka/io/npy.hpp"

namespace imka {

// The arrays by name, without ".npy". Error{bad_data} that names the file if it is damaged, truncated,
// encrypted or holds something else.
std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path);
// The same from bytes; `name` is used in messages.
std::map<std::string, NpyArray> parse_npz(std::string_view bytes, const std::string& name);

}  // namespace imka

// The parts of the module imka._imka, and their common types.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "imka/chip/build.hpp"

namespace imka::python {

namespace nb = nanobind;

// A chip in a file (deploy/chip_file.hpp), and the corrections of its outputs.
using ChipParts = std::tuple<std::filesystem::path, std::vector<float>, std::uint64_t>;
BuiltChip read_chip(const ChipParts& parts);
std::optional<ChipParts> save_chip(const std::optional<BuiltChip>& built, const std::filesystem::path& path);

void bind_features(nb::module_& m);
void bind_ridge(nb::module_& m);
void bind_chip(nb::module_& m);
void bind_model(nb::module_& m);
void bind_data(nb::module_& m);
void bind_attention(nb::module_& m);
void bind_command(nb::module_& m);

}  // namespace imka::python

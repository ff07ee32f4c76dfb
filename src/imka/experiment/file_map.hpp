// Features of the rows of a file, computed digitally or on the chip of the settings.
#pragma once

#include "imka/base/exec.hpp"
#include "imka/data/row_blocks.hpp"
#include "imka/experiment/run.hpp"
#include "imka/io/npy.hpp"

namespace imka {

// The recipe of the first seed. Reads the file once more if gamma is `scale`.
FeatureRecipe file_recipe(const RunConfig& config, const RowSource& rows, const Exec& exec);

struct FileMapJob {
    const RunConfig& config;  // its first seed identifies the chip
    const FeatureRecipe& recipe;
    const Matrix<float>& omega;  // of the recipe
    const RowSource& rows;
};
// Calibrates a chip on random rows of the file, which takes one extra pass.
RunMap file_map(const FileMapJob& job, const Exec& exec);

// Appends z(x) of every row of the file. Returns the number of rows.
std::uint64_t map_file(const SeededMap& map, const RowSource& source, const Exec& exec, NpyWriter& out);

}  // namespace imka

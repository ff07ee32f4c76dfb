// Features of the rows of a file, digital or on the chip of the settings.
#pragma once

#include "imka/base/exec.hpp"
#include "imka/data/npy.hpp"
#include "imka/data/row_blocks.hpp"
#include "imka/experiment/run.hpp"

namespace imka {

struct FileMapJob {
    const RunConfig& config;  // its first seed names the chip
    const FeatureRecipe& recipe;
    const Matrix<float>& omega;  // of the recipe
    const RowSource& rows;
};
// A chip is calibrated on rows of the file, which are drawn in a pass of their own.
RunMap file_map(const FileMapJob& job, const Exec& exec);

// Appends z(x) of every row of the file; the number of rows.
std::uint64_t map_file(const FeatureMap& map, const RowSource& source, const Exec& exec, NpyWriter& out);

}  // namespace imka

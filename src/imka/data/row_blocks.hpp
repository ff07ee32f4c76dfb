// Reads a file in blocks of rows. Memory use does not depend on the file size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/data/standardize.hpp"

namespace imka {

struct RowSource {
    std::filesystem::path path;
    ReadOptions options;                     // LIBSVM files: the number of features must be set
    std::optional<Standardization> scaling;  // applied to every row
};

struct RowBlock {
    Matrix<float> x;
    std::vector<std::string> labels;  // canonical; empty if a row has none
    std::uint64_t first_row = 0;
};
// Calls body with every block, in order. Error{bad_data} for a file without rows.
void for_each_block(const RowSource& source, const Exec& exec, const std::function<void(RowBlock&)>& body);

// The number of features of a file. Reads LIBSVM files to the end.
std::uint32_t count_features(const std::filesystem::path& path, const ReadOptions& options, const Exec& exec);

// Mean and standard deviation of all rows in one pass (Welford), in row order.
Standardization compute_standardization(const RowSource& source, const Exec& exec);

// At most `count` rows, each subset equally likely, drawn in one pass (reservoir sampling).
Matrix<float> sample_rows(const RowSource& source, std::size_t count, std::uint64_t seed, const Exec& exec);

}  // namespace imka

// A file read in blocks of rows, in memory that does not grow with it.
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
    ReadOptions options;                     // of LIBSVM files the number of features must be known
    std::optional<Standardization> scaling;  // applied to every row
};

struct RowBlock {
    Matrix<float> x;
    std::vector<std::string> labels;  // canonical; empty text where a row has none
    std::uint64_t first_row = 0;
};
// Calls body with every block, in order. Error{bad_data} for a file without rows.
void for_each_block(const RowSource& source, const Exec& exec, const std::function<void(RowBlock&)>& body);

// The number of features of a file. LIBSVM files are read to their end for it.
std::uint32_t count_features(const std::filesystem::path& path, const ReadOptions& options, const Exec& exec);

// Statistics of all rows in one pass (Welford), in the order of the rows.
Standardization compute_standardization(const RowSource& source, const Exec& exec);

// At most `count` rows, each subset equally likely, drawn in one pass (reservoir sampling).
Matrix<float> sample_rows(const RowSource& source, std::size_t count, std::uint64_t seed, const Exec& exec);

}  // namespace imka

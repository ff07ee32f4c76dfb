// Reads a file in blocks of rows. Memory use does not depend on the file size.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/data/standardize.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

struct RowSource {
    InputFile file;                               // pipes can also be read several times
    ReadOptions options = {};                     // LIBSVM files: the number of features must be set
    std::optional<Standardization> scaling = {};  // applied to every row
    // Missing::mean: replacements of missing values, one per feature. With `scaling`, its means are used.
    std::vector<double> fill = {};
    std::optional<std::uint64_t> rows = {};  // if known without reading them
};

// The source with everything set that depends on the file: number of features, header, label column, and the
// number of rows if known. Reads LIBSVM files to the end. Notes report what was found.
RowSource resolved(RowSource source, const Exec& exec);

struct RowBlock {
    Matrix<float> x;
    std::vector<std::string> labels;  // canonical; empty if a row has none
    std::uint64_t first_row = 0;
};
// Calls body with every block, in order. Error{bad_data} for a file without rows; Error{bad_usage} for a
// missing value without a mean.
void for_each_block(const RowSource& source, const Exec& exec, const std::function<void(RowBlock&)>& body);

// Mean and standard deviation of all rows in one pass (Welford), in row order. Missing values do not count.
Standardization compute_standardization(const RowSource& source, const Exec& exec);

// At most `count` rows, each subset equally likely, drawn in one pass (reservoir sampling).
Matrix<float> sample_rows(const RowSource& source, std::size_t count, std::uint64_t seed, const Exec& exec);

}  // namespace imka

// Writes generated rows to files in blocks: any number of rows in little memory.
#pragma once

#include <cstdint>
#include <filesystem>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/data/synthetic.hpp"

namespace imka {

struct GenerateOptions {
    Generator generator = Generator::twonorm;
    std::uint64_t seed = 0;
    std::uint64_t rows = 0;  // must be set
    std::filesystem::path output = {};
};
Fields fields(GenerateOptions& options);  // rows and seed

// Writes rows 0 .. rows-1 of the seed, with labels 1, 2, ... or numbers to predict, as LIBSVM, CSV or NPY by
// the file extension. For NPY the labels go to a second file (labels_beside). Writes are atomic.
void generate_file(const GenerateOptions& options, const Exec& exec);

// LIBSVM, CSV or NPY by the file extension. Error{bad_usage} for any other format and for compressed files.
Format output_format(const std::filesystem::path& path);

// "x.labels.npy" for "x.npy".
std::filesystem::path labels_beside(const std::filesystem::path& path);

}  // namespace imka

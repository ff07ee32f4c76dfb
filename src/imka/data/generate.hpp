// Files of generated rows, written as they are made: any number of rows in little memory.
#pragma once

#include <cstdint>
#include <filesystem>

#include "imka/base/exec.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/data/synthetic.hpp"

namespace imka {

struct GenerateOptions {
    Generator generator = Generator::twonorm;
    std::uint64_t seed = 0;
    std::uint64_t rows = 0;  // >= 1
    std::filesystem::path output = {};
};

// Rows 0 .. rows-1 of the seed as LIBSVM, CSV or NPY by the output's ending, with the labels 1, 2, ...; NPY
// has them in a file of its own (labels_beside). The files appear complete or not at all.
void generate_file(const GenerateOptions& options, const Exec& exec);

// The format to write for a name: LIBSVM, CSV or NPY. Error{bad_usage} for other and for compressed endings.
Format output_format(const std::filesystem::path& path);

// "x.labels.npy" for "x.npy".
std::filesystem::path labels_beside(const std::filesystem::path& path);

}  // namespace imka

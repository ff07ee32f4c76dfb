// Facts about data sets: presence and checksums of files, column ranges, class sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/data/dataset.hpp"
#include "imka/data/registry.hpp"

namespace imka {

// Whether all files of the set exist.
bool is_present(const RegisteredSet& set, const std::filesystem::path& data_dir);
std::uint64_t total_rows(const RegisteredSet& set);

enum class FileState {
    ok,
    other_copy,  // different bytes, but the expected table
    wrong,
    absent,
};
struct FileVerdict {
    std::filesystem::path path;  // if missing: its first name
    FileState state = FileState::absent;
    SourceCheck check;
};
// One per file.
std::vector<FileVerdict> verify_set(const RegisteredSet& set, const std::filesystem::path& data_dir,
                                    const Exec& exec);

struct ColumnRange {
    float min = 0.0F;
    double mean = 0.0;
    float max = 0.0F;
};
std::vector<ColumnRange> column_ranges(MatrixView<const float> x, const Exec& exec);

// Number of rows per class of the data set.
std::vector<std::uint64_t> class_counts(const Dataset& data, const Part& part);

// Writes a part as LIBSVM, CSV or NPY (class numbers in a second file) and returns the files.
// Error{bad_usage} for other formats.
std::vector<std::filesystem::path> export_part(const Dataset& data, const Part& part, Format format,
                                               const std::filesystem::path& output);

}  // namespace imka

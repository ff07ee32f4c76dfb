#include "imka/data/inspect.hpp"

#include <algorithm>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/data/generate.hpp"
#include "imka/data/table.hpp"
#include "imka/io/npy.hpp"

namespace imka {
namespace {

FileVerdict verify_file(const RegisteredSet& set, const SourceFile& file,
                        const std::filesystem::path& data_dir) {
    const auto path = find_source(set, file, data_dir);
    if (!path) return {.path = file.names[0], .state = FileState::absent, .check = {}};
    auto check = check_source(*path, file);
    const auto right = check.raw_sha256 == file.raw_sha256 ? FileState::ok : FileState::other_copy;
    const auto state = check.right ? right : FileState::wrong;
    return {.path = *path, .state = state, .check = std::move(check)};
}

Table labelled_table(const Dataset& data, const Part& part) {
    Table table{.x = part.x, .labels = {}};
    for (const auto y : part.y) table.labels.push_back(data.classes[static_cast<std::size_t>(y)]);
    return table;
}

void write_npy_pair(const std::filesystem::path& output, const Part& part) {
    Matrix<float> y(part.y.size(), 1);
    std::ranges::transform(part.y, y.values().begin(), [](std::int32_t c) { return static_cast<float>(c); });
    write_npy(labels_beside(output), y.view());
    write_npy(output, part.x.view());
}

}  // namespace

bool is_present(const RegisteredSet& set, const std::filesystem::path& data_dir) {
    return std::ranges::all_of(
        set.files, [&](const SourceFile& file) { return find_source(set, file, data_dir).has_value(); });
}

std::uint64_t total_rows(const RegisteredSet& set) {
    std::uint64_t rows = 0;
    for (const auto& file : set.files) rows += file.rows;
    return rows;
}

std::vector<FileVerdict> verify_set(const RegisteredSet& set, const std::filesystem::path& data_dir,
                                    const Exec& exec) {
    std::vector<FileVerdict> verdicts;
    for (const auto& file : set.files) {
        check_cancelled(exec);
        verdicts.push_back(verify_file(set, file, data_dir));
    }
    return verdicts;
}

std::vector<ColumnRange> column_ranges(MatrixView<const float> x, const Exec& exec) {
    // No note about constant columns: the ranges show them.
    const auto s = compute_standardization(x, {.threads = exec.threads, .cancel = exec.cancel});
    std::vector<ColumnRange> ranges;
    for (std::size_t c = 0; c < x.cols(); ++c)
        ranges.push_back({.min = x(0, c), .mean = s.mean[c], .max = x(0, c)});
    for (std::size_t r = 1; r < x.rows(); ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
            ranges[c].min = std::min(ranges[c].min, x(r, c));
            ranges[c].max = std::max(ranges[c].max, x(r, c));
        }
    }
    return ranges;
}

std::vector<std::uint64_t> class_counts(const Dataset& data, const Part& part) {
    std::vector<std::uint64_t> counts(data.classes.size());
    for (const auto y : part.y) ++counts[static_cast<std::size_t>(y)];
    return counts;
}

std::vector<std::filesystem::path> export_part(const Dataset& data, const Part& part, Format format,
                                               const std::filesystem::path& output) {
    switch (format) {
        case Format::libsvm:
            write_libsvm(output, labelled_table(data, part));
            return {output};
        case Format::csv:
            write_csv(output, labelled_table(data, part));
            return {output};
        case Format::npy:
            write_npy_pair(output, part);
            return {output, labels_beside(output)};
        case Format::arff:
            break;
    }
    fail(ErrorCode::bad_usage, "writing arff files is not supported");
}

}  // namespace imka

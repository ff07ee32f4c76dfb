#include "imka/data/row_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/data/table.hpp"

namespace imka {
namespace {

constexpr std::size_t kBlockRows = 4096;

std::string name_of(const RowSource& source) {
    return source.file.path().string();
}

// For all passes except the last, so that the notes about the file appear once.
Exec without_notes(Exec exec) {
    exec.log = nullptr;
    return exec;
}

void check_length(const Row& row, std::uint32_t features, const RowSource& source) {
    if (row.sparse || row.values.size() == features) return;
    fail(ErrorCode::bad_data, fmt::format("{}: line {}: {} features, expected {}", name_of(source), row.line,
                                          row.values.size(), features));
}

// Rows as in the file: not scaled, missing values are NaN.
void for_each_raw_block(const RowSource& source, const Exec& exec,
                        const std::function<void(RowBlock&)>& body) {
    const auto reader = open_rows(source.file, source.options, exec);
    const auto features = reader->features();
    if (!features) fail(ErrorCode::bad_usage, fmt::format("{}: unknown number of features", name_of(source)));
    Progress progress(exec, "rows", 0);
    RowBlock block;
    std::uint64_t rows = 0;
    Row row;
    bool more = reader->next(row);
    while (more) {
        check_cancelled(exec);
        block.first_row = rows;
        block.labels.clear();
        block.x = Matrix<float>(kBlockRows, *features);
        while (more && block.labels.size() < kBlockRows) {
            check_length(row, *features, source);
            copy_row(row, block.x.row(block.labels.size()));
            block.labels.push_back(row.label.empty() ? std::string() : canonical_label(row.label));
            more = reader->next(row);
        }
        block.x.resize_rows(block.labels.size());
        rows += block.labels.size();
        body(block);
        progress.update(rows);
    }
    if (rows == 0) fail(ErrorCode::bad_data, fmt::format("{}: no rows", name_of(source)));
}

// Replaces missing values by the means of the source. Returns their number.
std::uint64_t fill_missing(const RowSource& source, Matrix<float>& x) {
    const auto& means = source.scaling ? source.scaling->mean : source.fill;
    std::uint64_t filled = 0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
            if (!std::isnan(x(r, c))) continue;
            if (means.size() != x.cols()) {
                fail(ErrorCode::bad_usage,
                     fmt::format("{}: a value is missing, and the mean of its column in the training data is "
                                 "not known",
                                 name_of(source)));
            }
            x(r, c) = static_cast<float>(means[c]);
            ++filled;
        }
    }
    return filled;
}

std::uint32_t count_features(RowReader& reader, const RowSource& source, const Exec& exec) {
    if (const auto known = reader.features()) return *known;
    std::uint32_t most = 0;
    Row row;
    Progress progress(exec, "counting features", 0);
    for (std::uint64_t n = 1; reader.next(row); ++n) {
        if (!row.indices.empty()) most = std::max(most, row.indices.back() + 1);
        if (n % kBlockRows == 0) {
            check_cancelled(exec);
            progress.update(n);
        }
    }
    if (most == 0) fail(ErrorCode::bad_data, fmt::format("{}: no row has a feature", name_of(source)));
    return most;
}

}  // namespace

void for_each_block(const RowSource& source, const Exec& exec, const std::function<void(RowBlock&)>& body) {
    std::uint64_t filled = 0;
    for_each_raw_block(source, exec, [&](RowBlock& block) {
        if (source.options.missing == Missing::mean) filled += fill_missing(source, block.x);
        if (source.scaling) apply_standardization(*source.scaling, exec, block.x.view());
        body(block);
    });
    if (filled > 0)
        note(exec, fmt::format("{}: {} missing values replaced by means", name_of(source), filled));
}

RowSource resolved(RowSource source, const Exec& exec) {
    const auto reader = open_rows(source.file, source.options, exec);
    reader->decide(source.options);
    source.rows = reader->rows();
    source.options.features = count_features(*reader, source, exec);
    return source;
}

Standardization compute_standardization(const RowSource& source, const Exec& exec) {
    std::vector<double> n;
    std::vector<double> mean;
    std::vector<double> squares;
    for_each_raw_block(source, without_notes(exec), [&](RowBlock& block) {
        n.resize(block.x.cols());
        mean.resize(block.x.cols());
        squares.resize(block.x.cols());
        if (source.scaling) apply_standardization(*source.scaling, exec, block.x.view());
        for (std::size_t r = 0; r < block.x.rows(); ++r) {
            for (std::size_t c = 0; c < mean.size(); ++c) {
                if (std::isnan(block.x(r, c))) continue;
                n[c] += 1.0;
                const double delta = block.x(r, c) - mean[c];
                mean[c] += delta / n[c];
                squares[c] += delta * (block.x(r, c) - mean[c]);
            }
        }
    });
    for (std::size_t c = 0; c < mean.size(); ++c) {
        if (n[c] == 0.0) {
            fail(ErrorCode::bad_data,
                 fmt::format("{}: all values of feature {} are missing", name_of(source), c + 1));
        }
        squares[c] = squares[c] > 0.0 ? std::sqrt(squares[c] / (n[c] - 1.0)) : 1.0;
    }
    return {.mean = std::move(mean), .std = std::move(squares)};
}

Matrix<float> sample_rows(const RowSource& source, std::size_t count, std::uint64_t seed, const Exec& exec) {
    Matrix<float> kept;
    std::uint64_t rows = 0;
    for_each_block(source, without_notes(exec), [&](RowBlock& block) {
        if (rows == 0) kept = Matrix<float>(count, block.x.cols());
        for (std::size_t r = 0; r < block.x.rows(); ++r, ++rows) {
            // Row n replaces another row with probability count / (n + 1).
            const auto place = rows < count ? rows : uniform_int(seed, Stream::subsample, rows, rows + 1);
            if (place < count) std::ranges::copy(block.x.row(r), kept.row(place).begin());
        }
    });
    if (rows < count) kept.resize_rows(static_cast<std::size_t>(rows));
    return kept;
}

}  // namespace imka

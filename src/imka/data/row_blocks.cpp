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

void check_length(const Row& row, std::uint32_t features, const RowSource& source) {
    if (row.sparse || row.values.size() == features) return;
    fail(ErrorCode::bad_data, fmt::format("{}: line {}: {} features, expected {}", source.path.string(),
                                          row.line, row.values.size(), features));
}

}  // namespace

void for_each_block(const RowSource& source, const Exec& exec, const std::function<void(RowBlock&)>& body) {
    const auto reader = open_rows(source.path, source.options);
    const auto features = reader->features();
    if (!features)
        fail(ErrorCode::bad_usage, fmt::format("{}: unknown number of features", source.path.string()));
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
        if (source.scaling) apply_standardization(*source.scaling, block.x.view(), exec);
        body(block);
        progress.update(rows);
    }
    if (rows == 0) fail(ErrorCode::bad_data, fmt::format("{}: no rows", source.path.string()));
}

std::uint32_t count_features(const std::filesystem::path& path, const ReadOptions& options,
                             const Exec& exec) {
    const auto reader = open_rows(path, options);
    if (const auto known = reader->features()) return *known;
    std::uint32_t most = 0;
    Row row;
    Progress progress(exec, "counting features", 0);
    for (std::uint64_t n = 1; reader->next(row); ++n) {
        if (!row.indices.empty()) most = std::max(most, row.indices.back() + 1);
        if (n % kBlockRows == 0) {
            check_cancelled(exec);
            progress.update(n);
        }
    }
    if (most == 0) fail(ErrorCode::bad_data, fmt::format("{}: no row has a feature", path.string()));
    return most;
}

Standardization compute_standardization(const RowSource& source, const Exec& exec) {
    std::vector<double> mean;
    std::vector<double> squares;
    double n = 0.0;
    for_each_block(source, exec, [&](RowBlock& block) {
        mean.resize(block.x.cols());
        squares.resize(block.x.cols());
        for (std::size_t r = 0; r < block.x.rows(); ++r) {
            n += 1.0;
            for (std::size_t c = 0; c < mean.size(); ++c) {
                const double delta = block.x(r, c) - mean[c];
                mean[c] += delta / n;
                squares[c] += delta * (block.x(r, c) - mean[c]);
            }
        }
    });
    for (auto& s : squares) s = s > 0.0 ? std::sqrt(s / (n - 1.0)) : 1.0;
    return {.mean = std::move(mean), .std = std::move(squares)};
}

Matrix<float> sample_rows(const RowSource& source, std::size_t count, std::uint64_t seed, const Exec& exec) {
    Matrix<float> kept;
    std::uint64_t rows = 0;
    for_each_block(source, exec, [&](RowBlock& block) {
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

#include "imka/data/npy_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/data/columns.hpp"
#include "imka/io/npy.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

class NpyReader final : public RowReader {
public:
    NpyReader(ByteStream stream, const ReadOptions& options, const Exec& exec)
        : rows_(std::move(stream), options.missing == Missing::error ? NanValues::refuse : NanValues::keep) {
        if (rows_.header().rows == 0) rows_.stream().fail_file("has no rows");
        if (!is_plain(options)) choose(options);
        if (options.label_column.empty() && columns_.label)
            note(exec, fmt::format("{}: {}", rows_.stream().name(), label_text(columns_, {})));
    }

    bool next(Row& row) override {
        std::span<const float> values;
        if (!rows_.next(values)) return false;
        row = {.values = values, .line = rows_.row()};
        if (!chosen_) return find_missing(row);
        for (std::size_t j = 0; j < features_.size(); ++j) features_[j] = values[columns_.features[j]];
        row.values = features_;
        if (columns_.label) {
            label_.clear();
            append_number(label_, values[*columns_.label]);
            row.label = label_;
            row.missing = std::isnan(values[*columns_.label]);
        }
        return find_missing(row);
    }
    std::optional<std::uint32_t> features() const override {
        return static_cast<std::uint32_t>(chosen_ ? features_.size() : rows_.header().cols);
    }

    std::optional<std::uint64_t> rows() const override { return rows_.header().rows; }
    void decide(ReadOptions& options) const override { decide_label(columns_, options); }

private:
    static bool find_missing(Row& row) {
        row.missing = row.missing || std::ranges::any_of(row.values, [](float v) { return std::isnan(v); });
        return true;
    }
    bool is_plain(const ReadOptions& options) const {
        const bool labelled = options.label_column.empty()
                                  ? options.features && rows_.header().cols == *options.features + 1ULL
                                  : options.label_column != "none";
        return !labelled && options.drop_columns.empty();
    }
    // Only if the options need it, since it allocates memory for every column in the header.
    void choose(const ReadOptions& options) {
        constexpr std::uint64_t kMost = std::uint64_t{1} << 24U;
        const auto cols = rows_.header().cols;
        if (cols > kMost) {
            rows_.stream().fail_file(
                fmt::format("columns can be selected from at most {}, got {}", kMost, cols));
        }
        chosen_ = true;
        columns_ = choose_columns(options, {.file = rows_.stream().name(), .count = cols, .names = {}});
        features_.resize(columns_.features.size());
    }

    NpyRows rows_;
    Columns columns_;
    bool chosen_ = false;
    std::vector<float> features_;
    std::string label_;
};

}  // namespace

std::unique_ptr<RowReader> read_npy_rows(ByteStream stream, const ReadOptions& options, const Exec& exec) {
    return std::make_unique<NpyReader>(std::move(stream), options, exec);
}

}  // namespace imka

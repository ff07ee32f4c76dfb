#include "imka/data/npy_rows.hpp"

#include <fmt/format.h>

#include "imka/data/columns.hpp"
#include "imka/io/npy.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

class NpyReader final : public RowReader {
public:
    NpyReader(ByteStream stream, const ReadOptions& options) : rows_(std::move(stream)) {
        if (rows_.header().rows == 0) rows_.stream().fail_file("holds no rows");
        if (!is_plain(options)) choose(options);
    }

    bool next(Row& row) override {
        std::span<const float> values;
        if (!rows_.next(values)) return false;
        row = {.values = values, .indices = {}, .sparse = false, .label = {}, .line = rows_.row()};
        if (!chosen_) return true;
        for (std::size_t j = 0; j < features_.size(); ++j) features_[j] = values[columns_.features[j]];
        row.values = features_;
        if (columns_.label) {
            label_.clear();
            append_number(label_, values[*columns_.label]);
            row.label = label_;
        }
        return true;
    }
    std::optional<std::uint32_t> features() const override {
        return static_cast<std::uint32_t>(chosen_ ? features_.size() : rows_.header().cols);
    }

private:
    static bool is_plain(const ReadOptions& options) {
        return (options.label_column.empty() || options.label_column == "none") &&
               options.drop_columns.empty();
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
        columns_ = choose_columns(
            options, {.file = rows_.stream().name(), .count = cols, .names = {}, .default_label = "none"});
        features_.resize(columns_.features.size());
    }

    NpyRows rows_;
    Columns columns_;
    bool chosen_ = false;
    std::vector<float> features_;
    std::string label_;
};

}  // namespace

std::unique_ptr<RowReader> read_npy_rows(ByteStream stream, const ReadOptions& options) {
    return std::make_unique<NpyReader>(std::move(stream), options);
}

}  // namespace imka

#include "imka/data/libsvm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/data/columns.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

// Larger indices indicate a damaged file.
constexpr std::uint64_t kMaxIndex = std::uint64_t{1} << 31U;

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

// Removes and returns the next word of the text; empty at the end.
std::string_view take_word(std::string_view& text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    std::size_t length = 0;
    while (length < text.size() && !is_blank(text[length])) ++length;
    const auto word = text.substr(0, length);
    text.remove_prefix(length);
    return word;
}

class LibsvmReader final : public RowReader {
public:
    LibsvmReader(ByteStream stream, const ReadOptions& options)
        : stream_(std::move(stream)), options_(options), features_(options.features) {}

    bool next(Row& row) override {
        std::string_view line;
        while (stream_.next_line(line)) {
            line = line.substr(0, line.find('#'));
            const auto label = take_word(line);
            if (label.empty()) continue;
            check_label(label);
            read_pairs(line);
            const bool missing = std::ranges::any_of(values_, [](float v) { return std::isnan(v); });
            row = {.values = values_,
                   .indices = indices_,
                   .sparse = true,
                   .missing = missing,
                   .label = label,
                   .line = stream_.line()};
            any_row_ = true;
            any_feature_ = any_feature_ || !indices_.empty();
            return true;
        }
        if (!any_row_) stream_.fail_file("has no rows");
        // Any text parses as labels, so a file of a different format would become rows of zeros.
        if (!any_feature_)
            stream_.fail_file("no row has a feature; expected lines of the form 'label index:value ...'");
        return false;
    }
    std::optional<std::uint32_t> features() const override { return features_; }

private:
    void check_label(std::string_view label) const {
        if (label.find(':') != std::string_view::npos) {
            stream_.fail_line(fmt::format("the label is missing: the line begins with {}", in_quotes(label)));
        }
        if (is_bad_label(label)) stream_.fail_line(fmt::format("{} is not a label", in_quotes(label)));
    }

    void read_pairs(std::string_view text) {
        values_.clear();
        indices_.clear();
        std::uint64_t previous = 0;
        for (auto word = take_word(text); !word.empty(); word = take_word(text)) {
            std::uint64_t index = 0;
            const char* end = word.data() + word.size();
            const auto [stop, error] = std::from_chars(word.data(), end, index);
            if (error == std::errc::invalid_argument || stop == end || *stop != ':') fail_pair(word);
            check_index(error == std::errc{} ? index : kMaxIndex + 1, previous, word);
            previous = index;
            const std::string_view number(stop + 1, static_cast<std::size_t>(end - stop - 1));
            float value = 0;
            const auto fault = parse_value(number, options_.missing, value);
            if (fault != NumberFault::none) {
                stream_.fail_line(
                    fmt::format("feature {}: {}", index, describe_value(fault, number, options_)));
            }
            indices_.push_back(static_cast<std::uint32_t>(index - 1));
            values_.push_back(value);
        }
    }

    void check_index(std::uint64_t index, std::uint64_t previous, std::string_view word) const {
        if (index > previous && index <= kMaxIndex && (!features_ || index <= *features_)) return;
        if (index == 0) stream_.fail_line("feature index 0: indices start at 1");
        if (index > kMaxIndex) {
            stream_.fail_line(fmt::format("the feature index in {} exceeds 2^31", in_quotes(word)));
        }
        if (index == previous) stream_.fail_line(fmt::format("duplicate feature index {}", index));
        if (index < previous) {
            stream_.fail_line(
                fmt::format("feature index {} follows {}: indices must increase", index, previous));
        }
        stream_.fail_line(
            fmt::format("feature index {} exceeds the expected {} features", index, *features_));
    }

    [[noreturn]] void fail_pair(std::string_view word) const {
        if (word.starts_with("qid:")) {
            stream_.fail_line("'qid:' (ranking data) is not supported");
        }
        if (word.starts_with('-')) stream_.fail_line(fmt::format("{}: indices start at 1", in_quotes(word)));
        stream_.fail_line(fmt::format("{} is not of the form index:value", in_quotes(word)));
    }

    ByteStream stream_;
    ReadOptions options_;
    std::optional<std::uint32_t> features_;
    std::vector<float> values_;
    std::vector<std::uint32_t> indices_;
    bool any_row_ = false;
    bool any_feature_ = false;
};

}  // namespace

std::unique_ptr<RowReader> read_libsvm(ByteStream stream, const ReadOptions& options) {
    if (!options.drop_columns.empty()) {
        fail(ErrorCode::bad_config,
             fmt::format("{}: columns of LIBSVM files cannot be dropped", stream.name()));
    }
    return std::make_unique<LibsvmReader>(std::move(stream), options);
}

}  // namespace imka

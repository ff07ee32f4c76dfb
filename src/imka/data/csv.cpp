#include "imka/data/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/data/columns.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

// The most frequent of tab, semicolon and comma outside quotes; blank if there are none.
char find_delimiter(std::string_view line) {
    constexpr std::array<char, 3> kCandidates = {'\t', ';', ','};
    std::array<std::size_t, 3> counts{};
    bool inside = false;
    for (const char c : line) {
        if (c == '"') inside = !inside;
        const auto* found = std::find(kCandidates.begin(), kCandidates.end(), c);
        if (!inside && found != kCandidates.end()) {
            ++counts[static_cast<std::size_t>(found - kCandidates.begin())];
        }
    }
    const auto* most = std::max_element(counts.begin(), counts.end());
    if (*most == 0) return ' ';
    return kCandidates[static_cast<std::size_t>(most - counts.begin())];
}

// Splits lines into fields. A blank as delimiter matches any run of blanks and tabs.
class FieldSplitter {
public:
    // Views are valid until the next call, and as long as the line.
    const std::vector<std::string_view>& split(std::string_view line, char delimiter,
                                               const ByteStream& stream) {
        fields_.clear();
        unescaped_.clear();
        unescaped_.reserve(line.size());  // so that views into it stay valid
        if (delimiter == ' ') line = trimmed(line);
        while (true) {
            const auto end = take_field(line, delimiter, stream);
            if (end == line.size()) return fields_;
            line.remove_prefix(end + 1);
            if (delimiter == ' ') line = trimmed(line);
        }
    }

private:
    static bool is_delimiter(char c, char delimiter) {
        return c == delimiter || (delimiter == ' ' && c == '\t');
    }

    // Returns the end of the field: a delimiter or the end of the line.
    std::size_t take_field(std::string_view line, char delimiter, const ByteStream& stream) {
        std::size_t start = 0;
        while (start < line.size() && line[start] == ' ' && delimiter != ' ') ++start;
        if (start < line.size() && line[start] == '"') return take_quoted(line, start + 1, delimiter, stream);
        std::size_t end = start;
        while (end < line.size() && !is_delimiter(line[end], delimiter)) ++end;
        fields_.push_back(trimmed(line.substr(start, end - start)));
        return end;
    }

    std::size_t take_quoted(std::string_view line, std::size_t start, char delimiter,
                            const ByteStream& stream) {
        const auto begin = unescaped_.size();
        std::size_t at = start;
        while (true) {
            const auto quote = line.find('"', at);
            if (quote == std::string_view::npos) {
                stream.fail_line("a quote is not closed (line breaks inside quotes are not supported)");
            }
            unescaped_.append(line.substr(at, quote - at));
            at = quote + 1;
            if (at == line.size() || line[at] != '"') break;
            unescaped_ += '"';
            ++at;
        }
        fields_.push_back(std::string_view(unescaped_).substr(begin));
        while (at < line.size() && line[at] == ' ' && delimiter != ' ') ++at;
        if (at < line.size() && !is_delimiter(line[at], delimiter)) {
            stream.fail_line(fmt::format("text follows the closing quote of field {}", fields_.size() - 1));
        }
        return at;
    }

    std::vector<std::string_view> fields_;
    std::string unescaped_;
};

bool looks_numeric(std::string_view field) {
    float value = 0;
    return parse_float(field, value) != NumberFault::not_a_number;
}

class CsvReader final : public RowReader {
public:
    CsvReader(ByteStream stream, const ReadOptions& options)
        : stream_(std::move(stream)), delimiter_(options.delimiter) {
        if (delimiter_ == '"' || delimiter_ == '\n' || delimiter_ == '\r') {
            fail(ErrorCode::bad_config, "delimiter: a quote or a line end cannot separate fields");
        }
        if (!next_fields()) stream_.fail_file("holds no rows");
        count_ = fields().size();
        if (has_header(options)) {
            for (const auto field : fields()) names_.emplace_back(field);
            first_pending_ = false;
        }
        columns_ = choose_columns(options, source(names_));
        values_.resize(columns_.features.size());
    }

    bool next(Row& row) override {
        if (!std::exchange(first_pending_, false) && !next_fields()) {
            if (!any_row_) stream_.fail_file("holds a header but no rows");
            return false;
        }
        if (fields().size() != count_) {
            stream_.fail_line(fmt::format("{} fields, but the first line has {}", fields().size(), count_));
        }
        for (std::size_t j = 0; j < values_.size(); ++j) {
            const auto text = fields()[columns_.features[j]];
            const auto fault = parse_float(text, values_[j]);
            if (fault != NumberFault::none) fail_value(columns_.features[j], fault, text);
        }
        row = {.values = values_, .indices = {}, .sparse = false, .label = {}, .line = stream_.line()};
        if (columns_.label) row.label = checked_label();
        any_row_ = true;
        return true;
    }
    std::optional<std::uint32_t> features() const override {
        return static_cast<std::uint32_t>(values_.size());
    }
    std::vector<std::string> feature_names() const override {
        std::vector<std::string> names;
        if (names_.empty()) return names;
        for (const auto column : columns_.features) names.push_back(names_[column]);
        return names;
    }

private:
    const std::vector<std::string_view>& fields() const { return *fields_; }

    ColumnSource source(std::span<const std::string> names) const {
        return {.file = stream_.name(), .count = count_, .names = names, .default_label = "last"};
    }

    // Reads the fields of the next nonblank line.
    bool next_fields() {
        std::string_view line;
        while (stream_.next_line(line)) {
            if (trimmed(line).empty()) continue;
            if (delimiter_ == '\0') delimiter_ = find_delimiter(line);
            fields_ = &splitter_.split(line, delimiter_, stream_);
            return true;
        }
        return false;
    }

    // The first line holds names if none of its feature fields is a number. Names 0, 1, 2, ... (as data-frame
    // libraries write them) cannot be distinguished from a row, so the caller must set the header option.
    bool has_header(const ReadOptions& options) const {
        if (options.header) return *options.header;
        if (needs_names(options)) return true;
        const auto columns = choose_columns(options, source({}));
        bool any_number = false;
        bool counts = columns.features.size() > 1;
        for (const auto column : columns.features) {
            any_number = any_number || looks_numeric(fields()[column]);
            counts = counts && fields()[column] == std::to_string(column);
        }
        if (counts && columns.label && !looks_numeric(fields()[*columns.label])) {
            stream_.fail_line("can be names or values; set the header option");
        }
        return !any_number;
    }

    std::string_view checked_label() const {
        const auto label = fields()[*columns_.label];
        if (is_missing_label(label)) {
            stream_.fail_line(fmt::format("{}: {} is not a label", column_text(*columns_.label, names_),
                                          label.empty() ? "an empty field" : in_quotes(label)));
        }
        return label;
    }

    [[noreturn]] void fail_value(std::size_t column, NumberFault fault, std::string_view text) const {
        const bool text_field = fault == NumberFault::not_a_number && !text.empty();
        stream_.fail_line(fmt::format("{}: {}{}", column_text(column, names_), describe(fault, text),
                                      text_field ? "; choose the label column or drop this one" : ""));
    }

    ByteStream stream_;
    char delimiter_;
    FieldSplitter splitter_;
    const std::vector<std::string_view>* fields_ = nullptr;
    std::size_t count_ = 0;
    std::vector<std::string> names_;
    Columns columns_;
    std::vector<float> values_;
    bool first_pending_ = true;
    bool any_row_ = false;
};

}  // namespace

std::unique_ptr<RowReader> read_csv(ByteStream stream, const ReadOptions& options) {
    return std::make_unique<CsvReader>(std::move(stream), options);
}

}  // namespace imka

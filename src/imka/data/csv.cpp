#include "imka/data/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/data/columns.hpp"
#include "imka/data/csv_header.hpp"
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

bool is_delimiter(char c, char delimiter) {
    return c == delimiter || (delimiter == ' ' && c == '\t');
}

// A row as text; several lines if a quoted field has line breaks.
struct Record {
    std::string_view text;
    std::uint64_t line = 0;  // the first one
};

[[noreturn]] void fail_record(const ByteStream& stream, const Record& record, std::string_view message) {
    stream.fail_file(fmt::format("line {}: {}", record.line, message));
}

// Whether a quoted field continues after the line. `open`: the line begins inside a quoted field.
bool ends_in_quotes(std::string_view line, char delimiter, bool open) {
    bool field_start = !open;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (open) {
            if (c != '"') continue;
            const bool escaped = i + 1 < line.size() && line[i + 1] == '"';
            open = escaped;
            i += escaped ? 1 : 0;
        } else if (c == '"' && field_start) {
            open = true;
            field_start = false;
        } else {
            field_start = is_delimiter(c, delimiter) || (field_start && c == ' ');
        }
    }
    return open;
}

// Splits records into fields. A blank as delimiter matches any run of blanks and tabs.
class FieldSplitter {
public:
    // Views are valid until the next call, and as long as the record.
    const std::vector<std::string_view>& split(const Record& record, char delimiter,
                                               const ByteStream& stream) {
        auto text = record.text;
        fields_.clear();
        unescaped_.clear();
        unescaped_.reserve(text.size());  // so that views into it stay valid
        if (delimiter == ' ') text = trimmed(text);
        while (true) {
            const auto end = take_field(text, delimiter);
            if (end == std::string_view::npos) {
                fail_record(stream, record,
                            fmt::format("text follows the closing quote of field {}", fields_.size()));
            }
            if (end == text.size()) return fields_;
            text.remove_prefix(end + 1);
            if (delimiter == ' ') text = trimmed(text);
        }
    }

private:
    // Returns the end of the field: a delimiter or the end of the text; npos if text follows a quote.
    std::size_t take_field(std::string_view text, char delimiter) {
        std::size_t start = 0;
        while (start < text.size() && text[start] == ' ' && delimiter != ' ') ++start;
        if (start < text.size() && text[start] == '"') return take_quoted(text, start + 1, delimiter);
        std::size_t end = start;
        while (end < text.size() && !is_delimiter(text[end], delimiter)) ++end;
        fields_.push_back(trimmed(text.substr(start, end - start)));
        return end;
    }

    // The record ends outside quotes, so there is a closing quote.
    std::size_t take_quoted(std::string_view text, std::size_t at, char delimiter) {
        const auto begin = unescaped_.size();
        while (true) {
            const auto quote = std::min(text.find('"', at), text.size());
            unescaped_.append(text.substr(at, quote - at));
            at = std::min(quote + 1, text.size());
            if (at == text.size() || text[at] != '"') break;
            unescaped_ += '"';
            ++at;
        }
        fields_.push_back(std::string_view(unescaped_).substr(begin));
        while (at < text.size() && text[at] == ' ' && delimiter != ' ') ++at;
        return at < text.size() && !is_delimiter(text[at], delimiter) ? std::string_view::npos : at;
    }

    std::vector<std::string_view> fields_;
    std::string unescaped_;
};

// Reads records; look_ahead() reads the first ones in advance.
class RecordReader {
public:
    RecordReader(ByteStream stream, char delimiter) : stream_(std::move(stream)), delimiter_(delimiter) {
        if (delimiter_ == '"' || delimiter_ == '\n' || delimiter_ == '\r') {
            fail(ErrorCode::bad_config, "delimiter: a quote or a line end cannot separate fields");
        }
    }

    // Reads the fields of the next record that is not blank.
    bool next() {
        if (ahead_.empty()) {
            if (!read(record_)) return false;
        } else {
            kept_ = std::move(ahead_.front());
            ahead_.pop_front();
            record_ = {.text = kept_.text, .line = kept_.line};
        }
        fields_ = &splitter_.split(record_, delimiter_, stream_);
        return true;
    }

    // The fields of the next records. Call once, before next().
    std::vector<CsvFields> look_ahead() {
        constexpr std::size_t kMostRecords = 100;
        constexpr std::size_t kMostBytes = std::size_t{1} << 20U;
        std::vector<CsvFields> lines;
        std::size_t bytes = 0;
        while (ahead_.size() < kMostRecords && (ahead_.size() < 2 || bytes < kMostBytes) && read(record_)) {
            ahead_.push_back({.text = std::string(record_.text), .line = record_.line});
            bytes += record_.text.size();
            const auto& fields = splitter_.split(record_, delimiter_, stream_);
            lines.emplace_back(fields.begin(), fields.end());
        }
        return lines;
    }

    const std::vector<std::string_view>& fields() const { return *fields_; }
    std::uint64_t line() const { return record_.line; }
    const ByteStream& stream() const { return stream_; }
    [[noreturn]] void fail_line(std::string_view message) const { fail_record(stream_, record_, message); }

private:
    struct Kept {
        std::string text;
        std::uint64_t line = 0;
    };

    bool read(Record& record) {
        std::string_view line;
        do {
            if (!stream_.next_line(line)) return false;
        } while (trimmed(line).empty());
        if (delimiter_ == '\0') delimiter_ = find_delimiter(line);
        record = {.text = line, .line = stream_.line()};
        const bool quotes = line.find('"') != std::string_view::npos;
        if (quotes && ends_in_quotes(line, delimiter_, false)) read_rest(record);
        return true;
    }

    // Appends lines until the quotes are closed.
    void read_rest(Record& record) {
        constexpr std::size_t kMostBytes = std::size_t{1} << 20U;
        joined_ = record.text;
        std::string_view line;
        bool open = true;
        while (open) {
            joined_ += stream_.line_end();
            if (joined_.size() > kMostBytes || !stream_.next_line(line))
                fail_record(stream_, record, "a quote is not closed");
            joined_ += line;
            open = ends_in_quotes(line, delimiter_, true);
        }
        record.text = joined_;
    }

    ByteStream stream_;
    char delimiter_;
    FieldSplitter splitter_;
    Record record_;
    std::string joined_;      // of several lines
    std::deque<Kept> ahead_;  // read ahead, not yet returned
    Kept kept_;               // the current record, if it was read ahead
    const std::vector<std::string_view>* fields_ = nullptr;
};

class CsvReader final : public RowReader {
public:
    CsvReader(ByteStream stream, const ReadOptions& options, const Exec& exec)
        : records_(std::move(stream), options.delimiter), options_(options) {
        const auto lines = records_.look_ahead();
        if (lines.empty()) records_.stream().fail_file("has no rows");
        count_ = lines[0].size();
        const auto guess = find_header(lines);
        if (guess.header) {
            names_ = lines[0];
            records_.next();
        }
        columns_ = choose_columns(options_, source(lines));
        values_.resize(columns_.features.size());
        report(guess, exec);
    }

    bool next(Row& row) override {
        if (!records_.next()) {
            if (!any_row_) records_.stream().fail_file("holds a header but no rows");
            return false;
        }
        const auto& fields = records_.fields();
        if (fields.size() != count_) {
            records_.fail_line(fmt::format("{} fields, but the first line has {}", fields.size(), count_));
        }
        row = {.values = values_, .line = records_.line()};
        for (std::size_t j = 0; j < values_.size(); ++j) {
            const auto text = fields[columns_.features[j]];
            const auto fault = parse_value(text, options_.missing, values_[j]);
            if (fault != NumberFault::none) fail_value(columns_.features[j], fault, text);
            row.missing = row.missing || std::isnan(values_[j]);
        }
        if (columns_.label) take_label(row);
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
    void decide(ReadOptions& options) const override {
        options.header = names_.empty() ? Header::no : Header::yes;
        decide_label(columns_, options);
    }

private:
    ColumnSource source(std::span<const CsvFields> lines) const {
        return {.file = records_.stream().name(),
                .count = count_,
                .names = names_,
                .last_is_text = last_is_text(lines)};
    }

    HeaderGuess find_header(std::span<const CsvFields> lines) const {
        if (options_.header != Header::auto_) return {options_.header == Header::yes, "as set"};
        if (needs_names(options_)) return {true, "a column is chosen by name"};
        // Numbers count as names only if the user can override this.
        return guess_header(
            lines, {.label = choose_columns(options_, source(lines)).label, .numbered = options_.advise});
    }

    // Reports what the options did not set.
    void report(const HeaderGuess& guess, const Exec& exec) const {
        std::string text;
        if (options_.header == Header::auto_)
            text =
                fmt::format("the first line is {} ({})", guess.header ? "a header" : "a row", guess.reason);
        if (options_.label_column.empty())
            text += fmt::format("{}{}", text.empty() ? "" : "; ", label_text(columns_, names_));
        if (!text.empty()) note(exec, fmt::format("{}: {}", records_.stream().name(), text));
    }

    void take_label(Row& row) const {
        row.label = records_.fields()[*columns_.label];
        if (!is_bad_label(row.label)) return;
        if (options_.missing != Missing::drop) {
            records_.fail_line(fmt::format("{}: {} is not a label", column_text(*columns_.label, names_),
                                           row.label.empty() ? "an empty field" : in_quotes(row.label)));
        }
        row.missing = true;
    }

    [[noreturn]] void fail_value(std::size_t column, NumberFault fault, std::string_view text) const {
        records_.fail_line(
            fmt::format("{}: {}", column_text(column, names_), describe_value(fault, text, options_)));
    }

    RecordReader records_;
    ReadOptions options_;
    std::size_t count_ = 0;
    CsvFields names_;  // none without a header
    Columns columns_;
    std::vector<float> values_;
    bool any_row_ = false;
};

}  // namespace

std::unique_ptr<RowReader> read_csv(ByteStream stream, const ReadOptions& options, const Exec& exec) {
    return std::make_unique<CsvReader>(std::move(stream), options, exec);
}

}  // namespace imka

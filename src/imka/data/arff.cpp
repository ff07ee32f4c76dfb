#include "imka/data/arff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/data/columns.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

constexpr std::size_t kMaxAttributes = 1'000'000;

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return out;
}

// A word of a line. Quoted words may contain blanks and separators; a quoted '?' is not a missing value.
struct Word {
    std::string_view text;
    bool quoted = false;
};

// Splits a line into words; unescaped text is kept until reset().
class WordReader {
public:
    void reset(std::string_view line) {
        line_ = line;
        unescaped_.clear();
        unescaped_.reserve(line.size());  // so that views into it stay valid
    }
    void skip_blanks() {
        while (!line_.empty() && is_blank(line_.front())) line_.remove_prefix(1);
    }
    // Consumes the next nonblank character if it is c.
    bool take(char c) {
        skip_blanks();
        if (line_.empty() || line_.front() != c) return false;
        line_.remove_prefix(1);
        return true;
    }
    bool at_end() {
        skip_blanks();
        return line_.empty();
    }
    std::string_view rest() const { return line_; }
    // Reads up to a stop character or, if stops is empty, a blank.
    Word word(std::string_view stops, const ByteStream& stream) {
        skip_blanks();
        if (!line_.empty() && (line_.front() == '\'' || line_.front() == '"')) return quoted_word(stream);
        std::size_t length = 0;
        while (length < line_.size() && !is_stop(line_[length], stops)) ++length;
        const auto text = trimmed(line_.substr(0, length));
        line_.remove_prefix(length);
        return {text, false};
    }

private:
    static bool is_stop(char c, std::string_view stops) {
        return stops.empty() ? is_blank(c) : stops.find(c) != std::string_view::npos;
    }
    Word quoted_word(const ByteStream& stream) {
        const char quote = line_.front();
        const auto begin = unescaped_.size();
        std::size_t at = 1;
        while (at < line_.size() && line_[at] != quote) {
            if (line_[at] == '\\' && at + 1 < line_.size()) ++at;
            unescaped_ += line_[at];
            ++at;
        }
        if (at >= line_.size()) stream.fail_line("a quote is not closed");
        line_.remove_prefix(at + 1);
        return {std::string_view(unescaped_).substr(begin), true};
    }

    std::string_view line_;
    std::string unescaped_;
};

struct Attribute {
    enum class Kind { numeric, nominal, text };
    Kind kind = Kind::numeric;
    std::string first;                           // nominal: the value omitted in sparse rows
    std::set<std::string, std::less<>> allowed;  // nominal: the declared values
};

class ArffReader final : public RowReader {
public:
    ArffReader(ByteStream stream, const ReadOptions& options, const Exec& exec)
        : stream_(std::move(stream)), options_(options) {
        read_header();
        columns_ = choose_columns(options, {.file = stream_.name(),
                                            .count = attributes_.size(),
                                            .names = names_,
                                            .last_is_text = !holds_numbers(attributes_.back())});
        if (options.label_column.empty())
            note(exec, fmt::format("{}: {}", stream_.name(), label_text(columns_, names_)));
        for (const auto column : columns_.features) absent_.push_back(absent_value(column));
        feature_of_.assign(attributes_.size(), kNoFeature);
        for (std::size_t j = 0; j < columns_.features.size(); ++j) feature_of_[columns_.features[j]] = j;
        values_.resize(columns_.features.size());
    }

    bool next(Row& row) override {
        std::string_view line;
        do {
            if (!stream_.next_line(line)) {
                if (!any_row_) stream_.fail_file("has no rows after @data");
                return false;
            }
            line = trimmed(line);
        } while (line.empty() || line.front() == '%');
        words_.reset(line);
        label_ = {};
        missing_ = false;
        if (words_.take('{')) {
            read_sparse();
        } else {
            read_dense();
        }
        row = {.values = values_, .missing = missing_, .label = label_, .line = stream_.line()};
        any_row_ = true;
        return true;
    }
    std::optional<std::uint32_t> features() const override {
        return static_cast<std::uint32_t>(values_.size());
    }
    std::vector<std::string> feature_names() const override {
        std::vector<std::string> names;
        for (const auto column : columns_.features) names.push_back(names_[column]);
        return names;
    }
    void decide(ReadOptions& options) const override { decide_label(columns_, options); }

private:
    static constexpr std::size_t kNoFeature = static_cast<std::size_t>(-1);

    void read_header() {
        std::string_view line;
        while (stream_.next_line(line)) {
            line = trimmed(line);
            if (line.empty() || line.front() == '%') continue;
            words_.reset(line);
            const auto keyword = lower(words_.word("", stream_).text);
            if (keyword == "@data") {
                if (attributes_.empty()) stream_.fail_line("@data comes before any @attribute");
                return;
            }
            if (keyword == "@attribute") {
                read_attribute();
            } else if (keyword != "@relation") {
                stream_.fail_line(
                    fmt::format("expected @relation, @attribute or @data, not {}", in_quotes(line)));
            }
        }
        stream_.fail_file("ends before @data");
    }

    void read_attribute() {
        if (attributes_.size() == kMaxAttributes) {
            stream_.fail_line(fmt::format("more than {} attributes", kMaxAttributes));
        }
        const auto name = words_.word("", stream_);
        if (name.text.empty()) stream_.fail_line("the attribute has no name");
        names_.emplace_back(name.text);
        Attribute attribute;
        if (words_.take('{')) {
            read_nominal(attribute);
        } else {
            attribute.kind = plain_kind();
        }
        attributes_.push_back(std::move(attribute));
    }

    Attribute::Kind plain_kind() {
        const auto type = words_.word("", stream_).text;
        const auto word = lower(type);
        if (word == "numeric" || word == "real" || word == "integer") return Attribute::Kind::numeric;
        if (word == "string" || word == "date") return Attribute::Kind::text;
        stream_.fail_line(
            fmt::format("attribute {}: unsupported type {}; expected numeric, real, integer or {{a,b,...}}",
                        in_quotes(names_.back()), in_quotes(type)));
    }

    void read_nominal(Attribute& attribute) {
        attribute.kind = Attribute::Kind::nominal;
        do {
            const auto value = words_.word(",}", stream_);
            if (value.text.empty() && !value.quoted) stream_.fail_line("a nominal value is empty");
            if (attribute.allowed.empty()) attribute.first = value.text;
            attribute.allowed.emplace(value.text);
        } while (words_.take(','));
        if (!words_.take('}') || !words_.at_end()) {
            stream_.fail_line(
                fmt::format("attribute {}: the list of values must end with '}}'", in_quotes(names_.back())));
        }
    }

    static bool holds_numbers(const Attribute& attribute) {
        float value = 0;
        return attribute.kind == Attribute::Kind::numeric ||
               (attribute.kind == Attribute::Kind::nominal &&
                std::ranges::all_of(attribute.allowed, [&](const std::string& text) {
                    return parse_float(text, value) == NumberFault::none;
                }));
    }

    // The value of a feature omitted in a sparse row. Error{bad_data} if the feature is not numeric.
    float absent_value(std::size_t column) const {
        const auto& attribute = attributes_[column];
        if (!holds_numbers(attribute)) {
            stream_.fail_file(fmt::format(
                "attribute {} holds text, not numbers{}", in_quotes(names_[column]),
                options_.advise ? "; use --label-column to choose the label, --drop-columns to skip columns"
                                : ""));
        }
        float value = 0;
        if (attribute.kind == Attribute::Kind::nominal) parse_float(attribute.first, value);
        return value;
    }

    void read_dense() {
        std::size_t column = 0;
        do {
            const auto word = words_.word(",", stream_);
            if (column < attributes_.size()) set(column, word);
            ++column;
        } while (words_.take(','));
        if (!words_.at_end()) {
            stream_.fail_line(fmt::format("expected a comma before {}", in_quotes(words_.rest())));
        }
        if (column != attributes_.size()) {
            stream_.fail_line(
                fmt::format("{} fields, but {} attributes are declared", column, attributes_.size()));
        }
    }

    void read_sparse() {
        std::copy(absent_.begin(), absent_.end(), values_.begin());
        std::size_t next_column = 0;
        bool label_seen = false;
        if (!words_.take('}')) {
            do {
                const auto column = sparse_column(next_column);
                next_column = column + 1;
                set(column, words_.word(",}", stream_));
                label_seen = label_seen || column == columns_.label;
            } while (words_.take(','));
            if (!words_.take('}')) stream_.fail_line("the sparse row must end with '}'");
        }
        if (!words_.at_end()) {
            stream_.fail_line(fmt::format("{} follows the end of the row", in_quotes(words_.rest())));
        }
        if (columns_.label && !label_seen) label_ = absent_label();
    }

    std::size_t sparse_column(std::size_t least) {
        const auto text = words_.word("", stream_).text;
        std::size_t column = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, column);
        if (error != std::errc{} || stop != end || column >= attributes_.size()) {
            stream_.fail_line(fmt::format("{} is not an attribute number (0 to {})", in_quotes(text),
                                          attributes_.size() - 1));
        }
        if (column < least) {
            stream_.fail_line(
                fmt::format("attribute {}: attribute numbers of a sparse row must increase", column));
        }
        return column;
    }

    std::string_view absent_label() const {
        const auto& attribute = attributes_[*columns_.label];
        if (attribute.kind == Attribute::Kind::text) stream_.fail_line("the label is missing");
        return attribute.kind == Attribute::Kind::nominal ? std::string_view(attribute.first) : "0";
    }

    void set(std::size_t column, const Word& word) {
        const bool is_label = column == columns_.label;
        if (!is_label && feature_of_[column] == kNoFeature) return;
        if (!word.quoted && word.text == "?") {
            set_missing(column);
        } else if (is_label) {
            set_label(column, word.text);
        } else {
            auto& value = values_[feature_of_[column]];
            const auto fault = parse_value(word.text, options_.missing, value);
            if (fault != NumberFault::none) fail_value(column, fault, word.text);
            missing_ = missing_ || std::isnan(value);
        }
    }

    [[noreturn]] void fail_value(std::size_t column, NumberFault fault, std::string_view text) const {
        stream_.fail_line(
            fmt::format("{}: {}", column_text(column, names_), describe_value(fault, text, options_)));
    }

    void set_missing(std::size_t column) {
        if (options_.missing == Missing::error) fail_value(column, NumberFault::not_a_number, "?");
        missing_ = true;
        if (column != columns_.label) {
            values_[feature_of_[column]] = std::numeric_limits<float>::quiet_NaN();
        } else if (options_.missing == Missing::mean) {
            stream_.fail_line(fmt::format("{}: the label is missing", column_text(column, names_)));
        }
    }

    void set_label(std::size_t column, std::string_view text) {
        const auto& attribute = attributes_[column];
        const bool declared = attribute.kind != Attribute::Kind::nominal || attribute.allowed.contains(text);
        if (!declared || is_bad_label(text)) {
            stream_.fail_line(fmt::format("{}: {} is not {}", column_text(column, names_), in_quotes(text),
                                          declared ? "a label" : "one of the declared values"));
        }
        float value = 0;
        if (attribute.kind == Attribute::Kind::numeric &&
            parse_float(text, value) == NumberFault::not_a_number) {
            stream_.fail_line(
                fmt::format("{}: {} is not a number", column_text(column, names_), in_quotes(text)));
        }
        label_ = text;
    }

    ByteStream stream_;
    ReadOptions options_;
    WordReader words_;
    std::vector<std::string> names_;
    std::vector<Attribute> attributes_;
    Columns columns_;
    std::vector<std::size_t> feature_of_;  // feature index per column, or kNoFeature
    std::vector<float> absent_;            // value per feature if omitted in a sparse row
    std::vector<float> values_;
    std::string_view label_;
    bool missing_ = false;
    bool any_row_ = false;
};

}  // namespace

std::unique_ptr<RowReader> read_arff(ByteStream stream, const ReadOptions& options, const Exec& exec) {
    return std::make_unique<ArffReader>(std::move(stream), options, exec);
}

}  // namespace imka

#include "imka/data/row_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/data/arff.hpp"
#include "imka/data/csv.hpp"
#include "imka/data/libsvm.hpp"
#include "imka/data/npy_rows.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

struct Ending {
    std::string_view text;
    Format format;
};

// The LIBSVM collection uses .t, .tr and .val for test, training and validation parts; the UCI collection
// uses .data for tables. .txt is missing because it does not identify a format.
constexpr auto kFormatEndings = std::to_array<Ending>({
    {".libsvm", Format::libsvm},
    {".svm", Format::libsvm},
    {".svmlight", Format::libsvm},
    {".t", Format::libsvm},
    {".tr", Format::libsvm},
    {".val", Format::libsvm},
    {".arff", Format::arff},
    {".csv", Format::csv},
    {".tsv", Format::csv},
    {".data", Format::csv},
    {".npy", Format::npy},
});

std::string lower_ending(const std::filesystem::path& path) {
    auto text = path.extension().string();
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
}

Format format_or_fail(const std::filesystem::path& path, const ReadOptions& options) {
    if (options.format) return *options.format;
    if (const auto format = format_of(path)) return *format;
    fail(ErrorCode::bad_config,
         fmt::format("{}: the name does not end in the extension of a known format{}", path.string(),
                     options.advise ? "; use --format " + join_names(EnumNames<Format>::values, "|") : ""));
}

std::unique_ptr<RowReader> make_reader(ByteStream stream, Format format, const ReadOptions& options,
                                       const Exec& exec) {
    switch (format) {
        case Format::libsvm:
            return read_libsvm(std::move(stream), options);
        case Format::arff:
            return read_arff(std::move(stream), options, exec);
        case Format::csv:
            return read_csv(std::move(stream), options, exec);
        case Format::npy:
            break;
    }
    return read_npy_rows(std::move(stream), options, exec);
}

// Skips rows with missing values.
class CompleteRows final : public RowReader {
public:
    CompleteRows(std::unique_ptr<RowReader> rows, std::string name, const Exec& exec)
        : rows_(std::move(rows)), name_(std::move(name)), exec_(exec) {}

    bool next(Row& row) override {
        while (rows_->next(row)) {
            ++(row.missing ? dropped_ : kept_);
            if (!row.missing) return true;
        }
        if (kept_ == 0) fail(ErrorCode::bad_data, fmt::format("{}: every row has a missing value", name_));
        if (dropped_ > 0) {
            note(exec_, fmt::format("{}: {} of {} rows dropped: they have missing values", name_, dropped_,
                                    dropped_ + kept_));
        }
        return false;
    }
    std::optional<std::uint32_t> features() const override { return rows_->features(); }
    std::vector<std::string> feature_names() const override { return rows_->feature_names(); }
    void decide(ReadOptions& options) const override { rows_->decide(options); }

private:
    std::unique_ptr<RowReader> rows_;
    std::string name_;
    Exec exec_;
    std::uint64_t dropped_ = 0;
    std::uint64_t kept_ = 0;
};

StreamOptions stream_options(const ReadOptions& options) {
    return {.max_bytes = options.max_bytes, .spool_folder = options.spool_folder};
}

}  // namespace

std::optional<Format> format_of(const std::filesystem::path& path) {
    constexpr std::array<std::string_view, 4> kCompressed = {".gz", ".bz2", ".xz", ".zst"};
    auto ending = lower_ending(path);
    if (std::find(kCompressed.begin(), kCompressed.end(), ending) != kCompressed.end()) {
        ending = lower_ending(path.stem());
    }
    const auto* known = std::find_if(kFormatEndings.begin(), kFormatEndings.end(),
                                     [&](const Ending& e) { return e.text == ending; });
    if (known == kFormatEndings.end()) return std::nullopt;
    return known->format;
}

void copy_row(const Row& row, std::span<float> out) {
    if (!row.sparse) {
        std::ranges::copy(row.values, out.begin());
        return;
    }
    std::ranges::fill(out, 0.0F);
    for (std::size_t i = 0; i < row.indices.size(); ++i) out[row.indices[i]] = row.values[i];
}

std::vector<std::string> Codec<std::vector<std::string>>::parse(std::string_view text,
                                                                std::string_view name) {
    std::vector<std::string> values;
    while (!text.empty()) {
        const auto comma = std::min(text.find(','), text.size());
        values.emplace_back(trimmed(text.substr(0, comma)));
        if (values.back().empty() || comma + 1 == text.size())
            fail(ErrorCode::bad_config, fmt::format("{}: a name in the list is empty", name));
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return values;
}

std::string Codec<std::vector<std::string>>::json(const std::vector<std::string>& v) {
    std::string text;
    for (const auto& value : v) {
        if (!text.empty()) text += ',';
        text += detail::string_json(value);
    }
    return "[" + text + "]";
}

Fields fields(ReadOptions& o) {
    return {
        field("format", o.format, {.help = "Format of a file; auto: from its name"}),
        field("label_column", o.label_column,
              {.help = "Label column of a file: a name, a number (1 is the first), first, last or none. "
                       "Default: last if labels are needed, if it holds text, or if the file has one column "
                       "more than the model has features; otherwise none"}),
        field("header", o.header, {.help = "Whether the first line of a CSV file holds column names"}),
        field("drop_columns", o.drop_columns,
              {.help = "Columns of a file to leave out: names or numbers (1 is the first)"}),
        field(
            "missing", o.missing,
            {.help = "Missing values (empty, NA, N/A, ?, null, nan): an error, drop the row, or use the mean "
                     "of the column (of the training part, if there is one)"}),
    };
}

std::unique_ptr<RowReader> open_rows(ByteStream stream, const ReadOptions& options, const Exec& exec) {
    const auto name = stream.name();
    auto reader = make_reader(std::move(stream), format_or_fail(name, options), options, exec);
    const auto features = reader->features();
    if (options.features && features != options.features) {
        fail(ErrorCode::bad_data, fmt::format("{}: {} feature columns, expected {}", name,
                                              features.value_or(0), *options.features));
    }
    if (options.missing != Missing::drop) return reader;
    return std::make_unique<CompleteRows>(std::move(reader), name, exec);
}

std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, const ReadOptions& options,
                                     const Exec& exec) {
    format_or_fail(path, options);  // report an unknown extension before opening the file
    return open_rows(ByteStream(path, stream_options(options), exec), options, exec);
}

std::unique_ptr<RowReader> open_rows(const InputFile& file, const ReadOptions& options, const Exec& exec) {
    format_or_fail(file.path(), options);
    return open_rows(ByteStream(file, stream_options(options), exec), options, exec);
}

}  // namespace imka

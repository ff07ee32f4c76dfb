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

namespace imka {
namespace {

struct Ending {
    std::string_view text;
    Format format;
};

// The LIBSVM collection uses .t, .tr and .val for test, training and validation parts; the UCI collection
// uses .data for tables. .txt is missing because it does not identify a format.
constexpr auto kEndings = std::to_array<Ending>({
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
    fail(ErrorCode::bad_config, fmt::format("{}: unknown file extension; set the format to one of {}",
                                            path.string(), join_names(EnumNames<Format>::values)));
}

std::unique_ptr<RowReader> make_reader(ByteStream stream, Format format, const ReadOptions& options) {
    switch (format) {
        case Format::libsvm:
            return read_libsvm(std::move(stream), options);
        case Format::arff:
            return read_arff(std::move(stream), options);
        case Format::csv:
            return read_csv(std::move(stream), options);
        case Format::npy:
            break;
    }
    return read_npy_rows(std::move(stream), options);
}

}  // namespace

std::optional<Format> format_of(const std::filesystem::path& path) {
    constexpr std::array<std::string_view, 4> kCompressed = {".gz", ".bz2", ".xz", ".zst"};
    auto ending = lower_ending(path);
    if (std::find(kCompressed.begin(), kCompressed.end(), ending) != kCompressed.end()) {
        ending = lower_ending(path.stem());
    }
    const auto* known =
        std::find_if(kEndings.begin(), kEndings.end(), [&](const Ending& e) { return e.text == ending; });
    if (known == kEndings.end()) return std::nullopt;
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

std::unique_ptr<RowReader> open_rows(ByteStream stream, const ReadOptions& options) {
    const auto name = stream.name();
    auto reader = make_reader(std::move(stream), format_or_fail(name, options), options);
    const auto features = reader->features();
    if (options.features && features != options.features) {
        fail(ErrorCode::bad_data, fmt::format("{}: {} feature columns, expected {}", name,
                                              features.value_or(0), *options.features));
    }
    return reader;
}

std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, const ReadOptions& options) {
    format_or_fail(path, options);  // report an unknown extension before opening the file
    return open_rows(ByteStream(path, {.max_bytes = options.max_bytes}), options);
}

}  // namespace imka

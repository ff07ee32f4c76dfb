#include "imka/data/lra/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <mutex>
#include <system_error>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/data/registry.hpp"

namespace imka {
namespace {

constexpr std::uint32_t kReviews = 25'000;   // in each of imdb's files
constexpr std::uint32_t kHeldBack = 2'500;   // of the training reviews, for validation
constexpr std::uint32_t kImages = 60'000;    // of cifar10
constexpr std::uint32_t kTraining = 50'000;  // of them; the others are the test part
constexpr std::uint32_t kValidation = 5'000;

std::vector<std::uint32_t> numbers(std::uint32_t first, std::uint32_t count) {
    std::vector<std::uint32_t> all(count);
    for (std::uint32_t i = 0; i < count; ++i) all[i] = first + i;
    return all;
}

LraData empty_data(LraTask task, std::size_t documents, std::string origin) {
    const auto& info = lra_task(task);
    LraData data{.task = task, .origin = std::move(origin)};
    data.tokens = Matrix<std::uint8_t>(documents, static_cast<std::size_t>(info.length));
    data.lengths.resize(documents);
    data.examples.resize(documents);
    return data;
}

// Keeps the files read last: parts of a task can share a file, and one process may test many models of a
// task.
class LastFiles {
public:
    using Read = LraData (*)(const std::filesystem::path& path, const Exec& exec);
    using Part = std::function<LraData(const LraData&)>;
    // A part of the file. One thread at a time.
    LraData part_of(const std::filesystem::path& path, Read read, const Part& part, const Exec& exec) {
        std::error_code ignored;  // reading the file reports the error
        const Key key{std::filesystem::absolute(path, ignored), std::filesystem::file_size(path, ignored),
                      std::filesystem::last_write_time(path, ignored)};
        const std::scoped_lock lock(mutex_);
        auto found = std::ranges::find(files_, key, &File::key);
        if (found == files_.end()) {
            auto data = read(path, exec);
            constexpr std::size_t kMost = 2;  // both files of imdb; at most 200 MB
            if (files_.size() == kMost) files_.pop_front();
            files_.push_back({key, std::move(data)});
            found = std::prev(files_.end());
        }
        return part(found->data);
    }

private:
    // A file that was rewritten has a different key.
    using Key = std::tuple<std::filesystem::path, std::uintmax_t, std::filesystem::file_time_type>;
    struct File {
        Key key;
        LraData data;
    };
    std::mutex mutex_;
    std::list<File> files_;
};

LastFiles& last_files() {
    static LastFiles files;
    return files;
}

LraData read_reviews(const std::filesystem::path& path, const Exec& exec) {
    auto data = empty_data(LraTask::imdb, kReviews, "Large Movie Review Dataset v1");
    ByteStream stream(path, {}, exec);
    Progress progress(exec, "reading imdb", kReviews);
    std::uint32_t row = 0;
    for (std::string_view line; stream.next_line(line); ++row) {
        if (row % 1024 == 0) {
            check_cancelled(exec);
            progress.update(row);
        }
        if (row == kReviews) stream.fail_line(fmt::format("expected {} reviews, found more", kReviews));
        const auto label = parse_binary_label(stream, take_field(stream, line));
        take_field(stream, line);  // number of the review
        take_field(stream, line);  // stars
        data.lengths[row] = copy_text(stream, line, data.tokens.row(row));
        data.examples[row] = {.first = row, .second = row, .label = label};
    }
    if (row != kReviews) stream.fail_file(fmt::format("expected {} reviews, found {}", kReviews, row));
    return data;
}

// Numbers of the training images in the order of the published split, validation images at the end.
std::vector<std::uint32_t> read_split(const std::filesystem::path& path, const Exec& exec) {
    ByteStream stream(path, {}, exec);
    std::vector<char> bytes(std::size_t{2} * kTraining + 1);
    const auto read = stream.read(bytes);
    if (read != bytes.size() - 1)
        stream.fail_file(fmt::format("expected {} bytes, found {}", bytes.size() - 1,
                                     read == bytes.size() ? "more" : std::to_string(read)));
    std::vector<std::uint32_t> order(kTraining);
    std::vector<bool> seen(kTraining);
    for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] =
            static_cast<std::uint8_t>(bytes[2 * i]) + 256U * static_cast<std::uint8_t>(bytes[2 * i + 1]);
        if (order[i] >= kTraining || seen[order[i]])
            stream.fail_file(
                fmt::format("entry {}: {} is not a new number below {}", i, order[i], kTraining));
        seen[order[i]] = true;
    }
    return order;
}

LraData read_images(const std::filesystem::path& path, const Exec& exec) {
    auto data = empty_data(LraTask::cifar10, kImages, "CIFAR-10, gray");
    const auto& info = lra_task(LraTask::cifar10);
    ByteStream stream(path, {}, exec);
    Progress progress(exec, "reading cifar10", kImages);
    std::vector<char> record(1 + data.tokens.cols());
    for (std::uint32_t row = 0; row < kImages; ++row) {
        if (row % 1024 == 0) {
            check_cancelled(exec);
            progress.update(row);
        }
        if (stream.read(record) != record.size())
            stream.fail_file(fmt::format("expected {} images, the file ends in image {}", kImages, row));
        const auto label = static_cast<std::uint8_t>(record[0]);
        if (label >= info.classes)
            stream.fail_file(fmt::format("image {}: label {} is not in 0..{}", row, label, info.classes - 1));
        std::copy(record.begin() + 1, record.end(), data.tokens.row(row).begin());
        data.lengths[row] = static_cast<std::uint32_t>(info.length);
        data.examples[row] = {.first = row, .second = row, .label = label};
    }
    if (stream.read(std::span(record).first(1)) != 0)
        stream.fail_file(fmt::format("expected {} images, found more", kImages));
    return data;
}

}  // namespace

LraData chosen(const LraData& all, std::span<const std::uint32_t> examples) {
    constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> new_number(all.tokens.rows(), kNone);
    std::vector<std::uint32_t> documents;
    const auto number_of = [&](std::uint32_t document) {
        auto& number = new_number[document];
        if (number == kNone) {
            number = static_cast<std::uint32_t>(documents.size());
            documents.push_back(document);
        }
        return number;
    };
    LraData data{.task = all.task, .origin = all.origin};
    for (const auto i : examples) {
        const auto& example = all.examples[i];
        const auto first = number_of(example.first);
        data.examples.push_back(
            {.first = first, .second = number_of(example.second), .label = example.label});
    }
    data.tokens = Matrix<std::uint8_t>(documents.size(), all.tokens.cols());
    for (std::size_t d = 0; d < documents.size(); ++d) {
        std::ranges::copy(all.tokens.row(documents[d]), data.tokens.row(d).begin());
        data.lengths.push_back(all.lengths[documents[d]]);
    }
    return data;
}

std::filesystem::path need_lra_file(LraTask task, const LraSource& source,
                                    const std::filesystem::path& file) {
    if (source.data_dir.empty())
        fail(ErrorCode::missing_part,
             fmt::format("task {}: no data directory is set; use --data-dir or IMKA_DATA", to_string(task)));
    if (auto path = find_compressed(source.data_dir / file)) return *path;
    fail(ErrorCode::missing_part,
         fmt::format("task {}: no file {}, plain or compressed; docs/tasks.md describes the file",
                     to_string(task), (source.data_dir / file).string()));
}

std::string_view take_field(const ByteStream& stream, std::string_view& line) {
    const auto tab = line.find('\t');
    if (tab == std::string_view::npos) stream.fail_line("too few fields; expected fields separated by tabs");
    const auto field = line.substr(0, tab);
    line.remove_prefix(tab + 1);
    return field;
}

std::uint8_t parse_binary_label(const ByteStream& stream, std::string_view text) {
    if (text != "0" && text != "1")
        stream.fail_line(fmt::format("invalid label {}; expected 0 or 1", in_quotes(text)));
    return static_cast<std::uint8_t>(text[0] - '0');
}

std::uint32_t copy_text(const ByteStream& stream, std::string_view text, std::span<std::uint8_t> row) {
    if (text.empty()) stream.fail_line("the text is empty");
    const auto bytes = text.substr(0, row.size());
    std::ranges::copy(bytes, row.begin());
    return static_cast<std::uint32_t>(bytes.size());
}

LraData load_imdb(LraPart part, const LraSource& source, const Exec& exec) {
    const bool test = part == LraPart::test;
    const auto file =
        need_lra_file(LraTask::imdb, source, test ? "imdb/imdb_test.tsv" : "imdb/imdb_train.tsv");
    const auto choose = [&](const LraData& all) {
        if (test) return all;
        const auto order = permutation(source.seed, Stream::split, kReviews);
        const std::span rows(order);
        return chosen(all, part == LraPart::valid ? rows.first(kHeldBack) : rows.subspan(kHeldBack));
    };
    return last_files().part_of(file, read_reviews, choose, exec);
}

LraData load_cifar10(LraPart part, const LraSource& source, const Exec& exec) {
    const auto images = need_lra_file(LraTask::cifar10, source, "cifar10/gray.bin");
    const auto split = need_lra_file(LraTask::cifar10, source, "cifar10/split_perm50000.u16");
    const auto order = read_split(split, exec);
    const auto choose = [&](const LraData& all) {
        if (part == LraPart::test) return chosen(all, numbers(kTraining, kImages - kTraining));
        const std::span rows(order);
        return chosen(all,
                      part == LraPart::valid ? rows.last(kValidation) : rows.first(kTraining - kValidation));
    };
    return last_files().part_of(images, read_images, choose, exec);
}

}  // namespace imka

// Pairs of documents: LRA's files of the ACL Anthology Network (AAN), else pairs from PeerRead.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string>
#include <unordered_map>

#include "imka/base/error.hpp"
#include "imka/data/lra/files.hpp"
#include "imka/data/registry.hpp"

namespace imka {
namespace {

// Documents, each text once.
class DocumentList {
public:
    explicit DocumentList(LraData& data) : data_(data) {
        data_.tokens = Matrix<std::uint8_t>(0, static_cast<std::size_t>(lra_task(data.task).length));
    }

    std::uint32_t add(const ByteStream& stream, std::string_view text) {
        const auto next = static_cast<std::uint32_t>(data_.tokens.rows());
        const auto [at, added] = numbers_.try_emplace(std::string(text.substr(0, data_.tokens.cols())), next);
        if (added) {
            data_.tokens.resize_rows(next + 1);
            data_.lengths.push_back(copy_text(stream, text, data_.tokens.row(next)));
        }
        return at->second;
    }

private:
    LraData& data_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
};

std::string_view file_part(LraPart part) {
    constexpr std::array<std::string_view, 3> kNames = {"train", "eval", "test"};
    return kNames.at(static_cast<std::size_t>(part));
}

// Calls body(line) for each line; progress in lines.
template <class Body>
void for_each_line(ByteStream& stream, const Exec& exec, const Body& body) {
    Progress progress(exec, "reading retrieval", 0);
    for (std::string_view line; stream.next_line(line);) {
        if (stream.line() % 256 == 0) {
            check_cancelled(exec);
            progress.update(stream.line());
        }
        body(line);
    }
}

// label, id, id, text, text. Some copies write labels as 1.0.
LraData read_aan(const std::filesystem::path& path, const Exec& exec) {
    LraData data{.task = LraTask::retrieval, .origin = "AAN of Long Range Arena"};
    DocumentList documents(data);
    ByteStream stream(path, {}, exec);
    for_each_line(stream, exec, [&](std::string_view line) {
        auto label = take_field(stream, line);
        if (label.ends_with(".0")) label.remove_suffix(2);
        LraData::Example example{.label = parse_binary_label(stream, label)};
        take_field(stream, line);
        take_field(stream, line);
        example.first = documents.add(stream, take_field(stream, line));
        example.second = documents.add(stream, line);
        data.examples.push_back(example);
    });
    return data;
}

std::uint32_t parse_index(const ByteStream& stream, std::string_view text, std::size_t below) {
    std::uint32_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc() || end != text.data() + text.size() || value >= below)
        stream.fail_line(
            fmt::format("invalid document {}; expected a number below {}", in_quotes(text), below));
    return value;
}

// Reads documents, one per line: index, id, text. Returns the number in `data` of each index.
std::vector<std::uint32_t> read_documents(const std::filesystem::path& path, const Exec& exec,
                                          LraData& data) {
    DocumentList documents(data);
    std::vector<std::uint32_t> numbers;
    ByteStream stream(path, {}, exec);
    for_each_line(stream, exec, [&](std::string_view line) {
        const auto index = take_field(stream, line);
        if (index != std::to_string(numbers.size()))
            stream.fail_line(fmt::format("document {}; expected {}", in_quotes(index), numbers.size()));
        take_field(stream, line);
        numbers.push_back(documents.add(stream, line));
    });
    return numbers;
}

// Reads pairs, one per line: label, index, index.
LraData read_peerread(LraPart part, const LraSource& source, const Exec& exec) {
    const std::filesystem::path folder = "citations/peerread";
    const auto texts = need_lra_file(LraTask::retrieval, source, folder / "docs.tsv");
    const auto pairs =
        need_lra_file(LraTask::retrieval, source, folder / fmt::format("pairs.{}.tsv", file_part(part)));
    LraData data{.task = LraTask::retrieval, .origin = "citation pairs of PeerRead (not AAN)"};
    const auto numbers = read_documents(texts, exec, data);
    ByteStream stream(pairs, {}, exec);
    std::vector<std::uint32_t> order;
    for_each_line(stream, exec, [&](std::string_view line) {
        LraData::Example example{.label = parse_binary_label(stream, take_field(stream, line))};
        example.first = numbers[parse_index(stream, take_field(stream, line), numbers.size())];
        example.second = numbers[parse_index(stream, line, numbers.size())];
        order.push_back(static_cast<std::uint32_t>(data.examples.size()));
        data.examples.push_back(example);
    });
    return chosen(data, order);
}

}  // namespace

LraData load_retrieval(LraPart part, const LraSource& source, const Exec& exec) {
    const auto name = fmt::format("new_aan_pairs.{}.tsv", file_part(part));
    const auto aan = source.data_dir.empty() ? std::nullopt : find_compressed(source.data_dir / "aan" / name);
    auto data = aan ? read_aan(*aan, exec) : read_peerread(part, source, exec);
    if (data.examples.empty())
        fail(ErrorCode::bad_data, fmt::format("{}: part {} has no pairs", data.origin, to_string(part)));
    return data;
}

}  // namespace imka

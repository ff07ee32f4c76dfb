#include "imka/io/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include <cassert>
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are written as stored in memory");

constexpr std::uint64_t kMaxJsonHeader = std::uint64_t{16} << 20U;
constexpr std::string_view kMetadata = "__metadata__";

template <class T>
constexpr std::string_view kTypeName = sizeof(T) == 1   ? "U8"
                                       : sizeof(T) == 4 ? "F32"
                                                        : "F64";

// Byte range of a tensor, relative to the end of the header.
struct Entry {
    std::string name;
    std::string type;
    std::uint64_t rows = 0;
    std::uint64_t cols = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

template <class T>
void add_entries(const std::map<std::string, Matrix<T>>& tensors, Json& header, std::uint64_t& offset) {
    for (const auto& [name, matrix] : tensors) {
        const auto begin = offset;
        offset += matrix.values().size_bytes();
        header[name] = {{"dtype", kTypeName<T>},
                        {"shape", {matrix.rows(), matrix.cols()}},
                        {"data_offsets", {begin, offset}}};
    }
}

void check_names(const std::filesystem::path& path, const TensorFile& file) {
    const auto check = [&](const std::string& name) {
        const auto uses = file.f32.count(name) + file.f64.count(name) + file.u8.count(name);
        if (name == kMetadata || uses > 1) {
            fail(ErrorCode::bad_usage,
                 fmt::format("{}: duplicate tensor name {}", path.string(), in_quotes(name)));
        }
    };
    for (const auto& tensor : file.f32) check(tensor.first);
    for (const auto& tensor : file.f64) check(tensor.first);
    for (const auto& tensor : file.u8) check(tensor.first);
}

// Largest values first, so that every tensor is aligned to its value size.
std::string header_text(const std::filesystem::path& path, const TensorFile& file) {
    Json header = Json::object();
    if (!file.metadata.empty()) header[std::string(kMetadata)] = file.metadata;
    std::uint64_t offset = 0;
    add_entries(file.f64, header, offset);
    add_entries(file.f32, header, offset);
    add_entries(file.u8, header, offset);
    try {
        auto text = header.dump();
        text.resize((text.size() + 7) / 8 * 8, ' ');
        return text;
    } catch (const Json::exception&) {
        fail(ErrorCode::bad_usage,
             fmt::format("{}: a tensor's name or the metadata are not UTF-8", path.string()));
    }
}

// nlohmann keeps the last of duplicate keys; we reject such files as ambiguous.
class DuplicateKeys {
public:
    bool operator()(int /*depth*/, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::object_start) keys_.emplace_back();
        if (event == Json::parse_event_t::object_end) keys_.pop_back();
        if (event == Json::parse_event_t::key && !keys_.back().insert(value.get<std::string>()).second) {
            duplicate_ = value.get<std::string>();
        }
        return true;
    }
    const std::optional<std::string>& duplicate() const { return duplicate_; }

private:
    std::vector<std::set<std::string>> keys_;
    std::optional<std::string> duplicate_;
};

Json parse_header(const std::string& text, const ByteStream& stream) {
    if (!text.starts_with('{')) stream.fail_file("is not a safetensors file: the header must begin with '{'");
    DuplicateKeys keys;
    Json header;
    try {
        header = Json::parse(text, std::ref(keys));
    } catch (const Json::parse_error& e) {
        stream.fail_file(fmt::format("the header is not valid JSON near byte {}", e.byte));
    } catch (const Json::exception&) {
        stream.fail_file("the header is not valid JSON");
    }
    if (keys.duplicate()) {
        stream.fail_file(fmt::format("duplicate key {} in the header", in_quotes(*keys.duplicate())));
    }
    return header;
}

std::vector<std::uint64_t> unsigned_list(const Json& list, std::string_view what, const ByteStream& stream) {
    const bool good = list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& item) {
                          return item.is_number_unsigned();
                      });
    if (!good) stream.fail_file(fmt::format("{} must be a list of integers >= 0", what));
    return list.get<std::vector<std::uint64_t>>();
}

// 0 for a type that is not supported.
std::uint64_t value_bytes(std::string_view type) {
    if (type == kTypeName<float>) return sizeof(float);
    if (type == kTypeName<double>) return sizeof(double);
    return type == kTypeName<std::uint8_t> ? 1 : 0;
}

Entry parse_entry(const std::string& name, const Json& value, const ByteStream& stream) {
    const auto place = fmt::format("tensor {}", in_quotes(name));
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
        stream.fail_file(fmt::format("{} must have exactly dtype, shape and data_offsets", place));
    }
    Entry entry;
    entry.name = name;
    if (value["dtype"].is_string()) entry.type = value["dtype"].get<std::string>();
    if (value_bytes(entry.type) == 0) {
        stream.fail_file(fmt::format("{}: unsupported type {}; expected F32, F64 or U8", place,
                                     in_quotes(value["dtype"].dump(-1, ' ', true))));
    }
    const auto shape = unsigned_list(value["shape"], place + ": shape", stream);
    if (shape.empty() || shape.size() > 2) {
        stream.fail_file(fmt::format("{}: {} dimensions; expected 1 or 2", place, shape.size()));
    }
    entry.rows = shape.size() == 2 ? shape[0] : 1;
    entry.cols = shape.back();
    const auto offsets = unsigned_list(value["data_offsets"], place + ": data_offsets", stream);
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
        stream.fail_file(fmt::format("{}: data_offsets must be a begin and an end", place));
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    return entry;
}

// The size from the shape must match the size from the offsets; division avoids overflow.
void check_entry_size(const Entry& entry, const ByteStream& stream) {
    const std::uint64_t size = value_bytes(entry.type);
    assert(size > 0);
    const std::uint64_t bytes = entry.end - entry.begin;
    const bool empty = entry.rows == 0 || entry.cols == 0;
    const std::uint64_t values = bytes / size;
    const bool agrees = bytes % size == 0 &&
                        (empty ? values == 0 : values % entry.cols == 0 && values / entry.cols == entry.rows);
    if (!agrees) {
        stream.fail_file(fmt::format("tensor {}: {} x {} values of {} do not fill {} bytes",
                                     in_quotes(entry.name), entry.rows, entry.cols, entry.type, bytes));
    }
}

// Tensors in the order of their bytes; they must have no gaps or overlaps.
std::vector<Entry> parse_entries(const Json& header, std::uint64_t data_bytes, const ByteStream& stream) {
    std::vector<Entry> entries;
    for (const auto& item : header.items()) {
        if (item.key() != kMetadata) entries.push_back(parse_entry(item.key(), item.value(), stream));
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t offset = 0;
    for (const auto& entry : entries) {
        if (entry.begin != offset) {
            stream.fail_file(
                fmt::format("tensor {} begins at byte {}, expected {}: the tensors must follow "
                            "each other without gap or overlap",
                            in_quotes(entry.name), entry.begin, offset));
        }
        check_entry_size(entry, stream);
        offset = entry.end;
    }
    if (offset != data_bytes) {
        stream.fail_file(fmt::format("{}: the tensors need {} bytes, got {}",
                                     offset > data_bytes ? "truncated" : "bytes follow the tensors", offset,
                                     data_bytes));
    }
    return entries;
}

void read_metadata(const Json& header, const ByteStream& stream, TensorFile& file) {
    const auto found = header.find(kMetadata);
    if (found == header.end()) return;
    if (!found->is_object()) stream.fail_file("__metadata__ must map names to text");
    for (const auto& item : found->items()) {
        if (!item.value().is_string()) {
            stream.fail_file(fmt::format("__metadata__: {} must be text", in_quotes(item.key())));
        }
        file.metadata[item.key()] = item.value().get<std::string>();
    }
}

// Sizes were checked against the file, so this never allocates more than the file size.
template <class T>
Matrix<T> read_values(const Entry& entry, ByteStream& stream) {
    Matrix<T> matrix(entry.rows, entry.cols);
    const auto bytes = std::as_writable_bytes(matrix.values());
    const std::span<char> out(reinterpret_cast<char*>(bytes.data()), bytes.size());
    if (stream.read(out) != out.size()) stream.fail_file("truncated while it was being read");
    return matrix;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
    check_names(path, file);
    const auto header = header_text(path, file);
    AtomicFile out(path);
    const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(header.size()));
    out.write(std::string_view(length.data(), length.size()));
    out.write(header);
    for (const auto& tensor : file.f64) out.write(std::as_bytes(tensor.second.values()));
    for (const auto& tensor : file.f32) out.write(std::as_bytes(tensor.second.values()));
    for (const auto& tensor : file.u8) out.write(std::as_bytes(tensor.second.values()));
    out.commit();
}

TensorFile read_safetensors(ByteStream stream) {
    const auto size = stream.remaining();
    if (!size) stream.fail_file("is not a regular file");
    std::array<char, 8> length_bytes{};
    if (stream.read(length_bytes) != length_bytes.size())
        stream.fail_file("is too short for a safetensors file");
    const auto length = std::bit_cast<std::uint64_t>(length_bytes);
    if (length > kMaxJsonHeader || length > *size - length_bytes.size()) {
        stream.fail_file(
            fmt::format("is truncated or not a safetensors file: the header length is {} bytes, "
                        "at most {} are possible",
                        length, std::min(kMaxJsonHeader, *size - length_bytes.size())));
    }
    std::string text(length, '\0');
    if (stream.read(text) != text.size()) stream.fail_file("truncated inside the header");
    const auto header = parse_header(text, stream);
    TensorFile file;
    read_metadata(header, stream, file);
    for (const auto& entry : parse_entries(header, *size - length_bytes.size() - length, stream)) {
        if (entry.type == kTypeName<float>) {
            file.f32.emplace(entry.name, read_values<float>(entry, stream));
        } else if (entry.type == kTypeName<double>) {
            file.f64.emplace(entry.name, read_values<double>(entry, stream));
        } else {
            file.u8.emplace(entry.name, read_values<std::uint8_t>(entry, stream));
        }
    }
    return file;
}

TensorFile read_safetensors(const std::filesystem::path& path) {
    return read_safetensors(ByteStream(path, {.decompress = false}));
}

bool begins_like_safetensors(const std::filesystem::path& path) {
    std::array<char, 9> bytes{};
    std::ifstream in(path, std::ios::binary);
    if (!in.read(bytes.data(), bytes.size())) return false;
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return header <= kMaxJsonHeader && bytes[8] == '{';
}

}  // namespace imka

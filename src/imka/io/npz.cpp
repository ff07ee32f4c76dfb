#include "imka/io/npz.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <string_view>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/machine.hpp"
#include "imka/base/names.hpp"

namespace imka {
namespace {

static_assert(std::endian::native == std::endian::little, "ZIP files are little-endian");

// Records of a ZIP file; each begins with "PK" and its kind.
constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kEntry = 0x02014b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Place = 0x07064b50;
constexpr std::size_t kEndBytes = 22;
constexpr std::uint16_t kSizes64 = 1;  // kind of an extra field
constexpr std::uint32_t kIn64 = 0xffffffff;

// A position in the bytes of a file; reading past the end is an error.
class Cursor {
public:
    Cursor(const std::string& name, std::string_view bytes, std::uint64_t at)
        : name_(name), bytes_(bytes), at_(at) {}

    template <class T>
    T number() {
        T value{};
        std::memcpy(&value, text(sizeof(T)).data(), sizeof(T));
        return value;
    }
    std::string_view text(std::uint64_t count) {
        if (at_ > bytes_.size() || count > bytes_.size() - at_) fail_here("is truncated or damaged");
        const auto part = bytes_.substr(at_, count);
        at_ += count;
        return part;
    }
    void skip(std::uint64_t count) { (void)text(count); }
    [[noreturn]] void fail_here(std::string_view what) const {
        fail(ErrorCode::bad_data, fmt::format("{}: {}", name_, what));
    }

private:
    const std::string& name_;
    std::string_view bytes_;
    std::uint64_t at_;
};

struct ZipEntry {
    std::string name;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::uint64_t packed = 0;
    std::uint64_t size = 0;
    std::uint64_t place = 0;  // of the local header
};

// The table of contents.
struct Directory {
    std::uint64_t entries = 0;
    std::uint64_t place = 0;
};

class ZipFile {
public:
    ZipFile(std::string name, std::string_view bytes) : name_(std::move(name)), bytes_(bytes) {}

    std::vector<ZipEntry> entries() const {
        const auto directory = find_directory();
        auto at = cursor(directory.place);
        std::vector<ZipEntry> list;
        for (std::uint64_t i = 0; i < directory.entries; ++i) list.push_back(read_entry(at));
        return list;
    }

    std::string contents(const ZipEntry& entry) const {
        auto at = cursor(entry.place);
        if (at.number<std::uint32_t>() != kLocal) at.fail_here("is damaged: wrong position of an entry");
        at.skip(22);
        const auto name_bytes = at.number<std::uint16_t>();
        const auto extra_bytes = at.number<std::uint16_t>();
        at.skip(std::uint64_t{name_bytes} + extra_bytes);
        const auto packed = at.text(entry.packed);
        auto out = entry.method == 0 ? std::string(packed) : inflated(packed, entry);
        const auto crc = crc_of(out);
        if (out.size() != entry.size || crc != entry.crc)
            at.fail_here(fmt::format("{} is damaged: its checksum differs", in_quotes(entry.name)));
        return out;
    }

private:
    Cursor cursor(std::uint64_t at) const { return {name_, bytes_, at}; }

    static std::uint32_t crc_of(std::string_view text) {
        return static_cast<std::uint32_t>(
            crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
    }

    // The directory is at the end of the file, followed by at most a comment of up to 65535 bytes.
    Directory find_directory() const {
        const std::string_view mark("PK\x05\x06");
        const auto last = bytes_.size() < kEndBytes ? std::string_view::npos
                                                    : bytes_.rfind(mark, bytes_.size() - kEndBytes);
        if (last == std::string_view::npos) cursor(0).fail_here("is not an NPZ file, or is truncated");
        auto at = cursor(last);
        (void)at.number<std::uint32_t>();
        at.skip(6);
        Directory directory{.entries = at.number<std::uint16_t>()};
        at.skip(4);
        directory.place = at.number<std::uint32_t>();
        if (directory.place == kIn64 || directory.entries == 0xffff) return find_directory64(last);
        return directory;
    }

    Directory find_directory64(std::uint64_t end) const {
        if (end < 20) cursor(0).fail_here("is damaged: no directory");
        auto place = cursor(end - 20);
        if (place.number<std::uint32_t>() != kEnd64Place) place.fail_here("is damaged: no directory");
        place.skip(4);
        auto at = cursor(place.number<std::uint64_t>());
        if (at.number<std::uint32_t>() != kEnd64) at.fail_here("is damaged: no directory");
        at.skip(28);
        Directory directory{.entries = at.number<std::uint64_t>()};
        at.skip(8);
        directory.place = at.number<std::uint64_t>();
        return directory;
    }

    ZipEntry read_entry(Cursor& at) const {
        if (at.number<std::uint32_t>() != kEntry) at.fail_here("is damaged: its directory is not valid");
        at.skip(4);
        const auto flags = at.number<std::uint16_t>();
        ZipEntry entry{.name = {}, .method = at.number<std::uint16_t>()};
        at.skip(4);
        entry.crc = at.number<std::uint32_t>();
        entry.packed = at.number<std::uint32_t>();
        entry.size = at.number<std::uint32_t>();
        const auto name_bytes = at.number<std::uint16_t>();
        const auto extra_bytes = at.number<std::uint16_t>();
        const auto comment_bytes = at.number<std::uint16_t>();
        at.skip(8);
        entry.place = at.number<std::uint32_t>();
        entry.name = at.text(name_bytes);
        read_sizes64(at.text(extra_bytes), entry);
        at.skip(comment_bytes);
        if ((flags & 1U) != 0) at.fail_here(fmt::format("{} is encrypted", in_quotes(entry.name)));
        if (entry.method != 0 && entry.method != 8)
            at.fail_here(fmt::format("{} has compression method {}; expected stored or deflated",
                                     in_quotes(entry.name), entry.method));
        return entry;
    }

    // Sizes that do not fit 32 bits are in an extra field, in this order.
    void read_sizes64(std::string_view extra, ZipEntry& entry) const {
        Cursor at(name_, extra, 0);
        for (std::size_t left = extra.size(); left >= 4;) {
            const auto kind = at.number<std::uint16_t>();
            const auto bytes = at.number<std::uint16_t>();
            Cursor field(name_, at.text(bytes), 0);
            left -= std::min<std::size_t>(left, std::size_t{4} + bytes);
            if (kind != kSizes64) continue;
            for (auto* value : {&entry.size, &entry.packed, &entry.place}) {
                if (*value == kIn64) *value = field.number<std::uint64_t>();
            }
        }
    }

    // Memory grows with the data, not with the size given in the file.
    std::string inflated(std::string_view packed, const ZipEntry& entry) const {
        z_stream stream{};
        if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
        std::string out;
        int status = Z_OK;
        std::uint64_t given = 0;
        while (status == Z_OK && out.size() <= entry.size) {
            if (stream.avail_in == 0) {
                stream.avail_in = static_cast<uInt>(
                    std::min<std::uint64_t>(packed.size() - given, std::numeric_limits<uInt>::max()));
                given += stream.avail_in;
            }
            constexpr std::size_t kChunk = std::size_t{1} << 20U;
            const auto before = out.size();
            out.resize(before + kChunk);
            stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
            stream.avail_out = kChunk;
            status = inflate(&stream, Z_NO_FLUSH);
            out.resize(before + kChunk - stream.avail_out);
            if (status == Z_BUF_ERROR) break;
        }
        inflateEnd(&stream);
        if (status != Z_STREAM_END)
            cursor(0).fail_here(
                fmt::format("{} is damaged: it cannot be decompressed", in_quotes(entry.name)));
        return out;
    }

    std::string name_;
    std::string_view bytes_;
};

}  // namespace

std::map<std::string, NpyArray> parse_npz(std::string_view bytes, const std::string& name) {
    const ZipFile zip(name, bytes);
    std::map<std::string, NpyArray> arrays;
    for (const auto& entry : zip.entries()) {
        const auto where = fmt::format("{}: {}", name, in_quotes(entry.name));
        if (!entry.name.ends_with(".npy")) fail(ErrorCode::bad_data, where + " is not an array (.npy)");
        const auto text = zip.contents(entry);
        auto array = read_npy_array(ByteStream(where, text, {}));
        if (!arrays.emplace(entry.name.substr(0, entry.name.size() - 4), std::move(array)).second)
            fail(ErrorCode::bad_data, where + " is a duplicate");
    }
    if (arrays.empty()) fail(ErrorCode::bad_data, name + ": no arrays");
    return arrays;
}

std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path) {
    return parse_npz(read_file(path, static_cast<std::size_t>(physical_memory_bytes())), path.string());
}

}  // namespace imka

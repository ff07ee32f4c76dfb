// NPZ files as NumPy writes them; every damage is detected.
#include "imka/io/npz.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "../../fuzz/feed_npz.hpp"
#include "imka/base/file.hpp"
#include "support/error.hpp"
#include "support/fuzz_seeds.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <class T>
std::string bytes_of(T value) {
    std::string text(sizeof(T), '\0');
    std::memcpy(text.data(), &value, sizeof(T));
    return text;
}

std::string npy_bytes(const TempDir& dir, const NpyArray& array) {
    write_npy_array(dir / "one.npy", array);
    return read_file(dir / "one.npy", 1 << 24);
}

std::string deflated(const std::string& text) {
    z_stream stream{};
    deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string out(text.size() + 1000, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

enum class Pack { store, deflate, store64 };

struct Entry {
    std::string name;
    std::string bytes;
};

// store64: sizes in the extra field, as numpy.savez writes local headers and large files.
std::string zip_of(const std::vector<Entry>& entries, Pack pack) {
    std::string file;
    std::string directory;
    for (const auto& [name, bytes] : entries) {
        const auto packed = pack == Pack::deflate ? deflated(bytes) : bytes;
        const bool big = pack == Pack::store64;
        const auto crc = static_cast<std::uint32_t>(
            crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
        const auto method = bytes_of<std::uint16_t>(pack == Pack::deflate ? 8 : 0);
        const auto size = [&](std::size_t n) {
            return bytes_of(big ? 0xffffffffU : static_cast<std::uint32_t>(n));
        };
        const std::string extra = big ? bytes_of<std::uint16_t>(1) + bytes_of<std::uint16_t>(16) +
                                            bytes_of<std::uint64_t>(bytes.size()) +
                                            bytes_of<std::uint64_t>(packed.size())
                                      : "";
        const auto common = bytes_of<std::uint16_t>(0) + method + std::string(4, '\0') + bytes_of(crc) +
                            size(packed.size()) + size(bytes.size()) +
                            bytes_of(static_cast<std::uint16_t>(name.size())) +
                            bytes_of(static_cast<std::uint16_t>(extra.size()));
        directory += bytes_of<std::uint32_t>(0x02014b50) + std::string("\x14\0\x14\0", 4) + common +
                     std::string(10, '\0') + bytes_of(static_cast<std::uint32_t>(file.size())) + name + extra;
        file +=
            bytes_of<std::uint32_t>(0x04034b50) + std::string("\x14\0", 2) + common + name + extra + packed;
    }
    const auto place = static_cast<std::uint32_t>(file.size());
    const auto count = bytes_of(static_cast<std::uint16_t>(entries.size()));
    return file + directory + bytes_of<std::uint32_t>(0x06054b50) + std::string(4, '\0') + count + count +
           bytes_of(static_cast<std::uint32_t>(directory.size())) + bytes_of(place) + std::string(2, '\0');
}

NpyArray example(std::size_t rows) {
    NpyArray array{.type = "f4", .shape = {rows, 3}};
    array.bytes.resize(rows * 12);
    for (std::size_t i = 0; i < array.bytes.size(); ++i) array.bytes[i] = static_cast<char>(i % 7);
    return array;
}

TEST(Npz, ReadsStoredAndDeflatedArrays) {
    const TempDir dir;
    for (const auto pack : {Pack::store, Pack::deflate, Pack::store64}) {
        write_file_atomic(dir / "a.npz", zip_of({{"x.npy", npy_bytes(dir, example(4))},
                                                 {"mask.npy", npy_bytes(dir, example(90000))}},
                                                pack));
        const auto arrays = read_npz(dir / "a.npz");
        ASSERT_EQ(arrays.size(), 2U);
        EXPECT_EQ(arrays.at("x").shape, (std::vector<std::uint64_t>{4, 3}));
        EXPECT_EQ(arrays.at("x").bytes, example(4).bytes);
        EXPECT_EQ(arrays.at("mask").bytes, example(90000).bytes) << "more than one chunk";
    }
}

TEST(Npz, RefusesOtherFiles) {
    const TempDir dir;
    const auto message = [&](const std::string& bytes) {
        return error_of([&] { (void)parse_npz(bytes, "a.npz"); });
    };
    EXPECT_THAT(message(""), HasSubstr("not an NPZ file"));
    EXPECT_THAT(message("not a zip file, but long enough to hold an end"), HasSubstr("not an NPZ file"));
    EXPECT_THAT(message(zip_of({}, Pack::store)), HasSubstr("no arrays"));
    EXPECT_THAT(message(zip_of({{"readme.txt", "hello"}}, Pack::store)),
                HasSubstr("'readme.txt' is not an array"));
    EXPECT_THAT(message(zip_of({{"x.npy", "hello"}}, Pack::store)), HasSubstr("x.npy"));
    const auto npy = npy_bytes(dir, example(2));
    EXPECT_THAT(message(zip_of({{"x.npy", npy}, {"x.npy", npy}}, Pack::store)),
                HasSubstr("'x.npy' is a duplicate"));
}

// Whatever byte is changed or cut off: the same arrays or an error that names the file, never a crash.
TEST(Npz, SurvivesEveryDamage) {
    const TempDir dir;
    for (const auto pack : {Pack::store, Pack::deflate, Pack::store64}) {
        const auto good = zip_of({{"x.npy", npy_bytes(dir, example(5))}}, pack);
        for (std::size_t i = 0; i < good.size(); ++i) {
            auto bad = good;
            bad[i] = static_cast<char>(bad[i] ^ 0x5a);
            try {
                EXPECT_EQ(parse_npz(bad, "a.npz").begin()->second.bytes, example(5).bytes) << i;
            } catch (const Error& e) {
                EXPECT_THAT(e.what(), HasSubstr("a.npz")) << i;
            }
            EXPECT_THAT(error_of([&] { (void)parse_npz(good.substr(0, i), "a.npz"); }),
                        StartsWith("bad_data: "))
                << i;
        }
    }
}

// The seeds were written by NumPy.
TEST(Npz, FuzzSeedsGiveArraysOrOurErrors) {
    int files = 0;
    feed_seeds("npz", [&](std::string_view bytes) { files += fuzz::feed_npz(bytes) ? 1 : 0; });
    EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace imka

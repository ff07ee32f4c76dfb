// Lines and bytes from plain, compressed and damaged files.
#include "imka/io/byte_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "imka/base/random.hpp"
#include "support/compress.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> lines_of(ByteStream stream) {
    std::vector<std::string> lines;
    std::string_view line;
    while (stream.next_line(line)) lines.emplace_back(line);
    return lines;
}

std::vector<std::string> lines_of(std::string_view bytes, const StreamOptions& options = {}) {
    return lines_of(ByteStream("memory", bytes, options));
}

// Text that compresses poorly and is longer than every buffer.
std::string long_text() {
    std::string text;
    for (std::uint64_t i = 0; i < 60'000; ++i) {
        text += std::to_string(random_bits(1, Stream::test, i)) + (i % 3 == 0 ? "\n" : ",");
    }
    return text;
}

class EachCompression : public testing::TestWithParam<Compression> {};

TEST_P(EachCompression, ReadsTheSameLinesAsPlainText) {
    const auto text = long_text();
    const auto bytes = compressed(text, GetParam());
    ByteStream stream("memory", bytes, {});
    EXPECT_EQ(stream.compression(), GetParam());
    EXPECT_EQ(lines_of(std::move(stream)), lines_of(text));
}

TEST_P(EachCompression, ReadsFilesWithAnyName) {
    const TempDir dir;
    const auto text = long_text();
    std::ofstream(dir / "wrong.name", std::ios::binary) << compressed(text, GetParam());
    ByteStream stream(dir / "wrong.name", {});
    std::string all(text.size() + 10, '\0');
    all.resize(stream.read(all));
    EXPECT_EQ(all, text);
}

TEST_P(EachCompression, ReadsConcatenatedMembers) {
    const auto bytes =
        compressed("a\nb", GetParam()) + compressed("", GetParam()) + compressed("c\nd\n", GetParam());
    EXPECT_EQ(lines_of(bytes), (std::vector<std::string>{"a", "bc", "d"}));
}

TEST_P(EachCompression, EmptyInputHasNoLines) {
    EXPECT_TRUE(lines_of(compressed("", GetParam())).empty());
}

TEST_P(EachCompression, StopsAtTheByteLimit) {
    const auto bytes = compressed(std::string(5'000'000, 'x'), GetParam());
    const auto message = error_of([&] { lines_of(bytes, {.max_bytes = 1'000'000}); });
    EXPECT_THAT(message, StartsWith("bad_data: memory: larger than the limit of 1000000 bytes"));
    EXPECT_EQ(lines_of(bytes, {.max_bytes = 5'000'000}).size(), 1U);
}

TEST_P(EachCompression, StopsAtTheLongestLine) {
    const auto bytes = compressed("short\n" + std::string(3'000'000, 'x'), GetParam());
    const auto message = error_of([&] { lines_of(bytes, {.max_line_bytes = 1'000'000}); });
    EXPECT_EQ(message, "bad_data: memory: line 2: longer than the limit of 1000000 bytes");
    EXPECT_EQ(lines_of(bytes, {.max_line_bytes = 3'000'000}).size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(ByteStream, EachCompression,
                         testing::Values(Compression::none, Compression::gzip, Compression::bzip2,
                                         Compression::xz, Compression::zstd),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

class RealCompression : public testing::TestWithParam<Compression> {};

// Truncates at every length, also within the first bytes and the last checksum.
TEST_P(RealCompression, EveryTruncationIsAnError) {
    const auto bytes = compressed("1,2,3\n4,5,6\n", GetParam());
    const std::size_t least = GetParam() == Compression::bzip2 ? 4 : 2;
    for (std::size_t length = least; length < bytes.size(); ++length) {
        const auto message = error_of([&] { lines_of(std::string_view(bytes).substr(0, length)); });
        EXPECT_THAT(message,
                    AllOf(StartsWith("bad_data: memory: truncated: the "), HasSubstr(to_string(GetParam()))))
            << "cut to " << length << " of " << bytes.size();
    }
}

TEST_P(RealCompression, TruncationOfALongFileReportsThePosition) {
    const auto bytes = compressed(long_text(), GetParam());
    const auto half = bytes.substr(0, bytes.size() / 2);
    const auto place = "end early, at byte " + std::to_string(half.size());
    EXPECT_THAT(error_of([&] { lines_of(half); }), HasSubstr(place));
}

// A flipped byte after the magic number must never silently change the lines: all four formats have
// checksums.
TEST_P(RealCompression, EveryDamagedByteIsAnErrorOrChangesNothing) {
    const std::string text = "1,2,3\n4,5,6\n7,8,9\n";
    const auto good = compressed(text, GetParam());
    int errors = 0;
    for (std::size_t at = 10; at < good.size(); ++at) {
        auto bytes = good;
        bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
        std::vector<std::string> lines;
        const auto message = error_of([&] { lines = lines_of(bytes); });
        if (message == "no error") {
            EXPECT_EQ(lines, lines_of(text)) << "byte " << at;
        } else {
            EXPECT_THAT(message, StartsWith("bad_data: memory: "));
            ++errors;
        }
    }
    EXPECT_GT(errors, 10);
}

TEST_P(RealCompression, BytesAfterTheEndAreAnError) {
    const auto message = error_of([&] { lines_of(compressed("a\n", GetParam()) + "garbage, not a member"); });
    EXPECT_THAT(message, AnyOf(HasSubstr("damaged near byte"), HasSubstr("truncated")));
}

TEST_P(RealCompression, StopsADecompressionBombEarly) {
    // 70 MB of zeros, compressed to between a few hundred bytes and 70 kB: longer than the line limit.
    static const std::string zeros = [] {
        std::string text;
        text.resize(70'000'000);
        return text;
    }();
    const auto bomb = compressed(zeros, GetParam());
    EXPECT_LT(bomb.size(), 100'000U);
    EXPECT_THAT(error_of([&] { lines_of(bomb); }),
                HasSubstr("line 1: longer than the limit of 67108864 bytes"));
    EXPECT_THAT(error_of([&] { lines_of(bomb, {.max_bytes = 1000}); }),
                HasSubstr("larger than the limit of 1000 bytes"));
}

INSTANTIATE_TEST_SUITE_P(ByteStream, RealCompression,
                         testing::Values(Compression::gzip, Compression::bzip2, Compression::xz,
                                         Compression::zstd),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST(ByteStream, ReadsEveryLineEnd) {
    EXPECT_EQ(lines_of("a\r\nb\n\nc\r\n\r\nd"), (std::vector<std::string>{"a", "b", "", "c", "", "d"}));
    EXPECT_TRUE(lines_of("").empty());
    EXPECT_EQ(lines_of("\n"), (std::vector<std::string>{""}));
}

TEST(ByteStream, DropsAByteOrderMark) {
    EXPECT_EQ(lines_of("\xef\xbb\xbf"
                       "a\n\xef\xbb\xbf"
                       "b"),
              (std::vector<std::string>{"a",
                                        "\xef\xbb\xbf"
                                        "b"}));
}

TEST(ByteStream, ReadsTextThatBeginsLikeBzip2) {
    EXPECT_EQ(lines_of("BZh9,width\n1,2\n"), (std::vector<std::string>{"BZh9,width", "1,2"}));
}

TEST(ByteStream, RefusesXzThatNeedsTooMuchMemory) {
    const auto bytes = xz_bytes("a\n", 1U << 30U);
    EXPECT_THAT(error_of([&] { lines_of(bytes); }), HasSubstr("needs more than 256 MiB of memory"));
}

TEST(ByteStream, RefusesMissingFilesAndFolders) {
    const TempDir dir;
    EXPECT_THAT(error_of([&] { ByteStream(dir / "none", {}); }),
                AllOf(StartsWith("io: "), HasSubstr("none: cannot be read: No such file")));
    EXPECT_THAT(error_of([&] { ByteStream(dir.path(), {}); }),
                AllOf(StartsWith("io: "), HasSubstr("cannot be read: it is a folder")));
}

TEST(ByteStream, KnowsTheRemainingSizeOnlyForPlainFiles) {
    ByteStream plain("memory", "abc\ndefg", {});
    EXPECT_EQ(plain.remaining(), 8U);
    std::string_view line;
    plain.next_line(line);
    EXPECT_EQ(plain.remaining(), 4U);
    const auto packed = gzip_bytes("abc\ndefg");
    EXPECT_EQ(ByteStream("memory", packed, {}).remaining(), std::nullopt);
    EXPECT_EQ(ByteStream("memory", packed, {.decompress = false}).remaining(), packed.size());
}

}  // namespace
}  // namespace imka

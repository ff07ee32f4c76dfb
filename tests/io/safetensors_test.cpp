// safetensors: round trips, the documented layout, and the message for each kind of error.
#include "imka/io/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "support/error.hpp"
#include "support/same_bits.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string file_of(const std::string& header, const std::string& data) {
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

TensorFile read(const std::string& bytes) {
    return read_safetensors(ByteStream("memory", bytes, {.decompress = false}));
}

std::string fault(const std::string& header, const std::string& data = {}) {
    return error_of([&] { read(file_of(header, data)); });
}

TensorFile example() {
    TensorFile file;
    file.metadata = {{"format", "imka"}, {"text", "ünïcode \"quotes\"\n"}};
    file.f32["omega"] = Matrix<float>(5, 3);
    fill_normal(1, Stream::test, 0, file.f32["omega"].values());
    file.f32["omega"](0, 0) = std::numeric_limits<float>::quiet_NaN();
    file.f32["empty"] = Matrix<float>(0, 3);
    file.f64["weights"] = Matrix<double>(1, 4);
    file.f64["weights"](0, 2) = 0.1;
    file.u8["mask"] = Matrix<std::uint8_t>(1, 3);
    file.u8["mask"](0, 1) = 255;
    return file;
}

TEST(Safetensors, RoundTripsBitForBit) {
    const TempDir dir;
    const auto file = example();
    write_safetensors(dir / "a.safetensors", file);
    const auto back = read_safetensors(dir / "a.safetensors");
    EXPECT_EQ(back.metadata, file.metadata);
    ASSERT_EQ(back.f32.size(), 2U);
    ASSERT_EQ(back.f32.at("omega").rows(), 5U);
    EXPECT_EQ(back.f32.at("empty").cols(), 3U);
    EXPECT_TRUE(same_bits(back.f32.at("omega").values(), file.f32.at("omega").values()));
    EXPECT_TRUE(back.f64 == file.f64);
    EXPECT_TRUE(back.u8 == file.u8);
    write_safetensors(dir / "b.safetensors", back);
    EXPECT_EQ(read_file(dir / "a.safetensors", 1 << 20), read_file(dir / "b.safetensors", 1 << 20));
}

TEST(Safetensors, HasTheDocumentedLayout) {
    const TempDir dir;
    write_safetensors(dir / "a.safetensors", example());
    const auto bytes = read_file(dir / "a.safetensors", 1 << 20);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    EXPECT_EQ(length % 8, 0U);
    EXPECT_EQ(bytes.size(), 8 + length + std::uint64_t{4} * 8 + std::uint64_t{15} * 4 + 3);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    EXPECT_EQ(header["weights"]["dtype"], "F64");
    EXPECT_EQ(header["weights"]["data_offsets"], (nlohmann::json{0, 32}));
    EXPECT_EQ(header["omega"]["shape"], (nlohmann::json{5, 3}));
}

TEST(Safetensors, ReadsVectorsAsOneRow) {
    const auto file =
        read(file_of(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )", std::string(8, '\0')));
    EXPECT_EQ(file.f32.at("v").rows(), 1U);
    EXPECT_EQ(file.f32.at("v").cols(), 2U);
}

// The length of this header is 0x88b1f: its bytes are the magic number of gzip.
TEST(Safetensors, ReadsAFileThatBeginsLikeGzip) {
    const TempDir dir;
    std::string header = R"({"__metadata__":{"a":"b"}})";
    header.resize(0x088b1f, ' ');
    write_file_atomic(dir / "a", file_of(header, ""));
    EXPECT_EQ(read_safetensors(dir / "a").metadata.at("a"), "b");
}

TEST(Safetensors, EveryTruncationIsAnError) {
    const TempDir dir;
    write_safetensors(dir / "a", example());
    const auto good = read_file(dir / "a", 1 << 20);
    for (std::size_t length = 0; length < good.size(); ++length) {
        EXPECT_THAT(error_of([&] { read(good.substr(0, length)); }), StartsWith("bad_data: memory: "))
            << length;
    }
    EXPECT_THAT(error_of([&] { read(good + "x"); }), HasSubstr("bytes follow the tensors"));
}

// Changing any header byte gives a valid file or an imka::Error.
TEST(Safetensors, SurvivesEveryDamagedHeaderByte) {
    const TempDir dir;
    write_safetensors(dir / "a", example());
    const auto good = read_file(dir / "a", 1 << 20);
    int errors = 0;
    for (std::size_t at = 0; at < good.size() - 92; ++at) {
        for (const int flip : {0x01, 0x10, 0x80}) {
            auto bytes = good;
            bytes[at] = static_cast<char>(bytes[at] ^ flip);
            errors += error_of([&] { read(bytes); }) == "no error" ? 0 : 1;
        }
    }
    EXPECT_GT(errors, 100);
}

TEST(Safetensors, RefusesInvalidHeaders) {
    EXPECT_THAT(fault("[]"), HasSubstr("must begin with '{'"));
    EXPECT_THAT(fault("{\"a\": }"), testing::EndsWith("the header is not valid JSON near byte 7"));
    EXPECT_THAT(fault("{} {}"), HasSubstr("the header is not valid JSON"));
    EXPECT_THAT(fault(std::string(100'000, '{')), HasSubstr("the header is not valid JSON"));
    EXPECT_THAT(fault(R"({"a":1})"), HasSubstr("tensor 'a' must have exactly dtype, shape and data_offsets"));
    EXPECT_THAT(fault(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"x":1}})"),
                HasSubstr("exactly"));
    EXPECT_THAT(fault(R"({"__metadata__":{"a":1}})"), HasSubstr("__metadata__: 'a' must be text"));
    EXPECT_THAT(fault(R"({"__metadata__":3})"), HasSubstr("__metadata__ must map names to text"));
    EXPECT_THAT(fault(R"({"__metadata__":{"k":"1","k":"2"}})"), HasSubstr("duplicate key 'k'"));
    const std::string huge("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    EXPECT_THAT(error_of([&] { read(huge); }), HasSubstr("the header length is 9223372036854775807 bytes"));
}

TEST(Safetensors, RefusesInvalidTensors) {
    const auto with = [](const std::string& type, const std::string& shape, const std::string& offsets) {
        return fault(
            R"({"a":{"dtype":)" + type + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
            std::string(8, '\0'));
    };
    EXPECT_EQ(with("\"F32\"", "[2]", "[0,8]"), "no error");
    EXPECT_THAT(with("\"F16\"", "[4]", "[0,8]"),
                HasSubstr("unsupported type '\"F16\"'; expected F32, F64 or U8"));
    EXPECT_THAT(with("32", "[2]", "[0,8]"), HasSubstr("unsupported type '32'"));
    EXPECT_THAT(with("\"F32\"", "[1,1,2]", "[0,8]"), HasSubstr("3 dimensions; expected 1 or 2"));
    EXPECT_THAT(with("\"F32\"", "[]", "[0,8]"), HasSubstr("0 dimensions"));
    EXPECT_THAT(with("\"F32\"", "[-2]", "[0,8]"), HasSubstr("shape must be a list of integers >= 0"));
    EXPECT_THAT(with("\"F32\"", "[2.0]", "[0,8]"), HasSubstr("shape must be a list of integers >= 0"));
    EXPECT_THAT(with("\"F32\"", "2", "[0,8]"), HasSubstr("shape must be a list of integers >= 0"));
    EXPECT_THAT(with("\"F32\"", "[3]", "[0,8]"), HasSubstr("1 x 3 values of F32 do not fill 8 bytes"));
    EXPECT_THAT(with("\"F32\"", "[4294967296,1073741824]", "[0,8]"), HasSubstr("do not fill 8 bytes"));
    EXPECT_THAT(with("\"F32\"", "[0,9]", "[0,8]"), HasSubstr("do not fill 8 bytes"));
    EXPECT_THAT(with("\"F32\"", "[2]", "[8,0]"), HasSubstr("data_offsets must be a begin and an end"));
    EXPECT_THAT(with("\"F32\"", "[2]", "[0,8,9]"), HasSubstr("data_offsets must be a begin and an end"));
    EXPECT_THAT(with("\"F32\"", "[1]", "[4,8]"), HasSubstr("begins at byte 4, expected 0"));
    EXPECT_THAT(with("\"F32\"", "[1]", "[0,4]"), HasSubstr("bytes follow the tensors"));
    EXPECT_THAT(with("\"F32\"", "[4]", "[0,16]"), HasSubstr("truncated: the tensors need 16 bytes, got 8"));
}

TEST(Safetensors, RefusesOverlapsAndDuplicates) {
    const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
    const std::string b = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})";
    EXPECT_THAT(fault("{" + a + "," + b + "}", std::string(8, '\0')), HasSubstr("without gap or overlap"));
    EXPECT_THAT(fault("{" + a + "," + a + "}", std::string(8, '\0')), HasSubstr("duplicate key 'a'"));
}

TEST(Safetensors, RefusesToWriteUnreadableFiles) {
    const TempDir dir;
    TensorFile twice;
    twice.f32["a"] = Matrix<float>(1, 1);
    twice.f64["a"] = Matrix<double>(1, 1);
    EXPECT_THAT(error_of([&] { write_safetensors(dir / "x", twice); }),
                HasSubstr("duplicate tensor name 'a'"));
    TensorFile reserved;
    reserved.f32["__metadata__"] = Matrix<float>(1, 1);
    EXPECT_THAT(error_of([&] { write_safetensors(dir / "x", reserved); }), StartsWith("bad_usage: "));
    TensorFile broken;
    broken.metadata["a"] = "\xff";
    EXPECT_THAT(error_of([&] { write_safetensors(dir / "x", broken); }), HasSubstr("not UTF-8"));
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
    EXPECT_THAT(error_of([&] { read_safetensors(dir / "none"); }), StartsWith("io: "));
}

TEST(Safetensors, AreRecognisedByTheirBeginning) {
    const TempDir dir;
    write_safetensors(dir / "model", example());
    EXPECT_TRUE(begins_like_safetensors(dir / "model"));
    write_file_atomic(dir / "text", "not tensors at all");
    EXPECT_FALSE(begins_like_safetensors(dir / "text"));
    write_file_atomic(dir / "short", std::string("\x02\0\0\0", 4));
    EXPECT_FALSE(begins_like_safetensors(dir / "short"));
    EXPECT_FALSE(begins_like_safetensors(dir / "none"));
}

}  // namespace
}  // namespace imka

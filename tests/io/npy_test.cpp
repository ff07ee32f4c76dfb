// NPY: every type and version, round trips, and the message for each kind of error.
#include "imka/io/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "data/rows.hpp"
#include "imka/base/random.hpp"
#include "support/compress.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string npy(const std::string& header, const std::string& data, int version = 1) {
    std::string out = "\x93NUMPY";
    out += static_cast<char>(version);
    out += '\0';
    const auto length = static_cast<std::uint32_t>(header.size());
    out.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
    return out + header + data;
}

std::string head(const std::string& descr, const std::string& shape) {
    return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }      \n";
}

Table read_array(const std::string& bytes, ReadOptions options = {}) {
    options.format = Format::npy;
    return table_of(bytes, options);
}

std::string npy_fault(const std::string& bytes, const ReadOptions& options = {}) {
    return error_of([&] { read_array(bytes, options); });
}

template <class T>
void expect_type(const std::string& descr, std::vector<T> values) {
    std::vector<float> expected(values.begin(), values.end());
    EXPECT_EQ(values_of(read_array(npy(head(descr, "(2, 2)"), bytes_of(values)))), expected) << descr;
}

TEST(Npy, ReadsEveryType) {
    expect_type<float>("<f4", {1.5F, -2, 3, 1e-45F});
    expect_type<double>("<f8", {0.1, -2, 3e38, 1e-60});
    expect_type<std::int8_t>("|i1", {-128, 127, 0, 1});
    expect_type<std::uint8_t>("|u1", {255, 127, 0, 1});
    expect_type<std::uint8_t>("|b1", {1, 0, 0, 1});
    expect_type<std::int16_t>("<i2", {-32768, 32767, 0, 1});
    expect_type<std::uint16_t>("<u2", {65535, 1, 0, 1});
    expect_type<std::int32_t>("<i4", {-2147483647, 1, 0, 1});
    expect_type<std::uint32_t>("<u4", {4294967295U, 1, 0, 1});
    expect_type<std::int64_t>("<i8", {std::numeric_limits<std::int64_t>::min(), 1, 0, 1});
    expect_type<std::uint64_t>("<u8", {std::numeric_limits<std::uint64_t>::max(), 1, 0, 1});
}

TEST(Npy, ReadsEveryVersionAndVectors) {
    const auto data = bytes_of<float>({1, 2, 3});
    for (const int version : {1, 2, 3}) {
        const auto table = read_array(npy(head("<f4", "(3,)"), data, version));
        EXPECT_EQ(table.x.rows(), 3U);
        EXPECT_EQ(table.x.cols(), 1U);
        EXPECT_EQ(values_of(table), (Floats{1, 2, 3}));
    }
    EXPECT_EQ(values_of(read_array(npy("{\"shape\":(1,3),\"descr\":\"<f4\",\"fortran_order\":False}", data))),
              (Floats{1, 2, 3}));
}

TEST(Npy, ReadsALabelColumnOnRequest) {
    const auto bytes = npy(head("<f4", "(2, 3)"), bytes_of<float>({1, 2, 0, 3, 4, 1.5F}));
    EXPECT_TRUE(read_array(bytes).labels.empty());
    const auto last = read_array(bytes, {.label_column = "last"});
    EXPECT_EQ(last.labels, (Texts{"0", "1.5"}));
    EXPECT_EQ(values_of(last), (Floats{1, 2, 3, 4}));
    EXPECT_EQ(values_of(read_array(bytes, {.label_column = "1", .drop_columns = {"2"}})), (Floats{0, 1.5F}));
    EXPECT_THAT(npy_fault(bytes, {.label_column = "x"}),
                HasSubstr("bad_config: memory: there is no column 'x'"));
}

TEST(Npy, RoundTripsBitForBit) {
    const TempDir dir;
    Matrix<float> matrix(301, 7);
    fill_normal(3, Stream::test, 0, matrix.values());
    matrix(0, 0) = -0.0F;
    matrix(1, 1) = std::numeric_limits<float>::denorm_min();
    write_npy(dir / "a.npy", matrix.view());
    const auto back = read_npy(dir / "a.npy");
    ASSERT_EQ(back.rows(), 301U);
    ASSERT_EQ(back.cols(), 7U);
    EXPECT_EQ(std::memcmp(back.data(), matrix.data(), matrix.values().size_bytes()), 0);
    std::ifstream in(dir / "a.npy", std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    std::ofstream(dir / "a.npy.gz", std::ios::binary) << gzip_bytes(bytes);
    EXPECT_TRUE(read_npy(dir / "a.npy.gz") == back);
    EXPECT_TRUE(read_table(dir / "a.npy.gz", {}).x == back);
}

TEST(Npy, WriterPadsItsHeaderAndCountsItsRows) {
    const TempDir dir;
    Matrix<float> rows(2, 3);
    NpyWriter writer(dir / "a.npy", 3);
    writer.append(rows.view());
    writer.append(rows.view().slice_rows(0, 1));
    EXPECT_FALSE(std::filesystem::exists(dir / "a.npy"));
    EXPECT_THAT(error_of([&] { writer.append(rows.view().slice_cols(0, 2)); }), StartsWith("bad_usage: "));
    writer.commit();
    EXPECT_EQ(std::filesystem::file_size(dir / "a.npy"), 128U + 9 * sizeof(float));
    EXPECT_EQ(read_npy(dir / "a.npy").rows(), 3U);
    EXPECT_THAT(error_of([&] { NpyWriter(dir / "b.npy", 0); }), StartsWith("bad_usage: "));
}

TEST(Npy, AllowsNoRowsInMatricesButNotInTables) {
    const TempDir dir;
    write_npy(dir / "a.npy", Matrix<float>(0, 4).view());
    EXPECT_EQ(read_npy(dir / "a.npy").cols(), 4U);
    EXPECT_THAT(error_of([&] { read_table(dir / "a.npy", {}); }), HasSubstr("has no rows"));
}

TEST(Npy, EveryTruncationIsAnError) {
    const TempDir dir;
    const auto good = npy(head("<f4", "(2, 3)"), bytes_of<float>({1, 2, 3, 4, 5, 6}));
    for (std::size_t length = 0; length < good.size(); ++length) {
        EXPECT_THAT(npy_fault(good.substr(0, length)), StartsWith("bad_data: memory: ")) << length;
        EXPECT_THAT(npy_fault(gzip_bytes(good.substr(0, length))), StartsWith("bad_data: memory: "))
            << length;
        std::ofstream(dir / "a.npy", std::ios::binary) << good.substr(0, length);
        EXPECT_THAT(error_of([&] { read_npy(dir / "a.npy"); }), StartsWith("bad_data: ")) << length;
    }
    EXPECT_EQ(npy_fault(good.substr(0, good.size() - 1)),
              "bad_data: memory: truncated: expected 2 x 3 values of 4 bytes, got 23 bytes");
    EXPECT_EQ(npy_fault(gzip_bytes(good.substr(0, good.size() - 1))),
              "bad_data: memory: row 2: truncated: expected 2 rows");
}

TEST(Npy, BytesAfterTheValuesAreAnError) {
    const auto more = npy(head("<f4", "(2, 1)"), bytes_of<float>({1, 2})) + "x";
    EXPECT_THAT(npy_fault(more),
                HasSubstr("bytes follow the values: expected 2 x 1 values of 4 bytes, got 9"));
    EXPECT_THAT(npy_fault(gzip_bytes(more)), HasSubstr("extra bytes after the 2 rows given in the header"));
}

TEST(Npy, AbsurdSizesAllocateNoMemory) {
    const TempDir dir;
    const auto data = bytes_of<float>({1, 2});
    for (const auto* shape :
         {"(18446744073709551615, 2)", "(2, 2147483647)", "(4294967296, 1073741824)",
          "(9223372036854775807, 2147483648)", "(1, 3000000000)", "(99999999999999999999,)"}) {
        const auto bytes = npy(head("<f4", shape), data);
        EXPECT_THAT(npy_fault(bytes), StartsWith("bad_data: memory: ")) << shape;
        EXPECT_THAT(npy_fault(gzip_bytes(bytes)), StartsWith("bad_data: memory: ")) << shape;
        std::ofstream(dir / "a.npy.gz", std::ios::binary) << gzip_bytes(bytes);
        EXPECT_NE(error_of([&] { read_npy(dir / "a.npy.gz"); }), "no error") << shape;
    }
}

TEST(Npy, ReportsRowAndColumnOfNonFiniteValues) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInf = std::numeric_limits<float>::infinity();
    for (const float bad : {kNan, kInf, -kInf}) {
        EXPECT_EQ(npy_fault(npy(head("<f4", "(2, 2)"), bytes_of<float>({1, 2, 3, bad}))),
                  "bad_data: memory: row 2: column 2: the value is not finite in 32 bits");
    }
    EXPECT_THAT(npy_fault(npy(head("<f8", "(1, 2)"), bytes_of<double>({1e39, 2}))),
                HasSubstr("row 1: column 1: the value is not finite in 32 bits"));
}

TEST(Npy, RefusesOtherFilesAndHeaders) {
    const auto data = bytes_of<float>({1, 2});
    EXPECT_EQ(npy_fault(""), "bad_data: memory: is empty");
    EXPECT_EQ(npy_fault("1,2,3\n"), "bad_data: memory: is not an NPY file");
    EXPECT_THAT(npy_fault(npy(head("<f4", "(2,)"), data, 4)), HasSubstr("unsupported NPY version 4.0"));
    EXPECT_THAT(npy_fault(npy(head(">f4", "(2,)"), data)), HasSubstr("'>f4' is big-endian"));
    EXPECT_THAT(npy_fault(npy(head("|f4", "(2,)"), data)), HasSubstr("unsupported type '|f4'"));
    EXPECT_THAT(npy_fault(npy(head("<f2", "(4,)"), data)), HasSubstr("unsupported type '<f2'"));
    EXPECT_THAT(npy_fault(npy(head("<c8", "(1,)"), data)), HasSubstr("unsupported type '<c8'"));
    EXPECT_THAT(npy_fault(npy(head("|O", "(1,)"), data)), HasSubstr("unsupported type '|O'"));
    EXPECT_THAT(npy_fault(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", data)),
                HasSubstr("structured types are not supported"));
    EXPECT_THAT(npy_fault(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}", data)),
                HasSubstr("Fortran order"));
    EXPECT_THAT(npy_fault(npy(head("<f4", "()"), data)), HasSubstr("no dimensions"));
    EXPECT_THAT(npy_fault(npy(head("<f4", "(1, 1, 2)"), data)), HasSubstr("more than two dimensions"));
    EXPECT_THAT(npy_fault(npy(head("<f4", "(2, 0)"), "")), HasSubstr("at least one column"));
    EXPECT_THAT(npy_fault(npy(head("<f4", "(-1,)"), data)), HasSubstr("'shape' must hold integers"));
    EXPECT_THAT(npy_fault(npy(head("<f4", "(2)"), data)), HasSubstr("'shape' must be a tuple"));
    EXPECT_THAT(npy_fault(npy(head("<f4", "(1 2)"), data)), HasSubstr("expected a comma"));
    EXPECT_THAT(npy_fault(npy("{'descr': '<f4', 'shape': (2,)}", data)), HasSubstr("must have the keys"));
    EXPECT_THAT(npy_fault(npy("{'descr': '<f4', 'descr': '<f4'}", data)), HasSubstr("duplicate key 'descr'"));
    EXPECT_THAT(npy_fault(npy("{'x': 1}", data)), HasSubstr("unknown key 'x'"));
    EXPECT_THAT(npy_fault(npy(head("<f4", "(2,)") + "x", data)), HasSubstr("text follows the dictionary"));
    auto huge = npy("", "", 2);
    huge.replace(8, 4, "\xff\xff\xff\x7f");
    EXPECT_THAT(npy_fault(huge), HasSubstr("an NPY header of 2147483647 bytes is too large"));
}

TEST(NpyArrays, KeepTypeShapeAndBytes) {
    const TempDir dir;
    const auto path = dir / "a.npy";
    for (const NpyArray& array :
         {NpyArray{.type = "f4", .shape = {2, 1, 3}, .bytes = std::vector<char>(24, 'x')},
          NpyArray{.type = "i8", .shape = {}, .bytes = std::vector<char>(8, 'y')},
          NpyArray{.type = "b1", .shape = {0, 5}},
          NpyArray{.type = "u1", .shape = {3}, .bytes = {1, 2, 3}}}) {
        write_npy_array(path, array);
        const auto back = read_npy_array(path);
        EXPECT_EQ(back.type, array.type);
        EXPECT_EQ(back.shape, array.shape);
        EXPECT_EQ(back.bytes, array.bytes);
    }
    const auto error = [&](const std::string& bytes) {
        std::ofstream(path, std::ios::binary) << bytes;
        return error_of([&] { (void)read_npy_array(path); });
    };
    const std::string four(16, 'x');
    EXPECT_THAT(error(npy(head("<f4", "(2, 2, 2)"), four)), HasSubstr("expected 32 bytes of values, got 16"));
    EXPECT_THAT(error(npy(head("<f4", "(1, 2)"), four)), HasSubstr("got 16"));
    EXPECT_THAT(error(npy(head("<f4", "(4294967296, 4294967296, 4294967296)"), four)), HasSubstr("expected"));
    EXPECT_THAT(error(npy(head("<c8", "(2,)"), four)), HasSubstr("unsupported type"));
    EXPECT_THAT(error("\x93NUMPY"), HasSubstr("truncated"));
}

}  // namespace
}  // namespace imka

// Tables: opening by name, labels, hashes, round trips through the writers, bounded memory.
#include "imka/data/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <limits>

#include "data/rows.hpp"
#include "imka/base/random.hpp"
#include "imka/base/sha256.hpp"
#include "support/compress.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(FormatOf, GoesByTheEnding) {
    EXPECT_EQ(format_of("a/b.libsvm"), Format::libsvm);
    EXPECT_EQ(format_of("cod-rna.t.xz"), Format::libsvm);
    EXPECT_EQ(format_of("ijcnn1.tr.BZ2"), Format::libsvm);
    EXPECT_EQ(format_of("a.val"), Format::libsvm);
    EXPECT_EQ(format_of("a.svmlight.zst"), Format::libsvm);
    EXPECT_EQ(format_of("a.ARFF.gz"), Format::arff);
    EXPECT_EQ(format_of("a.csv"), Format::csv);
    EXPECT_EQ(format_of("a.tsv.gz"), Format::csv);
    EXPECT_EQ(format_of("magic04.data.xz"), Format::csv);
    EXPECT_EQ(format_of("a.npy.gz"), Format::npy);
    EXPECT_EQ(format_of("Skin_NonSkin.txt.xz"), std::nullopt);
    EXPECT_EQ(format_of("cod-rna.xz"), std::nullopt);
    EXPECT_EQ(format_of("a.d/file"), std::nullopt);
    EXPECT_EQ(format_of(".csv"), std::nullopt);
}

TEST(OpenRows, RequiresAFormatForUnknownExtensions) {
    const TempDir dir;
    std::ofstream(dir / "a.txt") << "1,2\n";
    EXPECT_THAT(error_of([&] { open_rows(dir / "a.txt", {}); }),
                HasSubstr("does not end in the extension of a known format"));
    EXPECT_THAT(error_of([&] { open_rows(dir / "a.txt", {.advise = true}); }),
                HasSubstr("--format libsvm|arff|csv|npy"));
    EXPECT_EQ(read_table(dir / "a.txt", {.format = Format::csv}).x.rows(), 1U);
}

TEST(OpenRows, RefusesMissingFilesFoldersAndBombs) {
    const TempDir dir;
    for (const auto format : {Format::libsvm, Format::arff, Format::csv, Format::npy}) {
        EXPECT_THAT(error_of([&] { open_rows(dir / "none", {.format = format}); }), StartsWith("io: "));
        EXPECT_THAT(error_of([&] { open_rows(dir.path(), {.format = format}); }), StartsWith("io: "));
        const auto bomb = gzip_bytes(std::string(3'000'000, '\n'));
        std::ofstream(dir / "bomb", std::ios::binary) << bomb;
        const auto message =
            error_of([&] { read_table(dir / "bomb", {.format = format, .max_bytes = 100'000}); });
        EXPECT_THAT(message, StartsWith("bad_data: "));
        if (format != Format::npy) {
            EXPECT_THAT(message, HasSubstr("larger than the limit of 100000 bytes"));
        }
    }
}

TEST(CanonicalLabel, WritesNumbersInTheirShortestForm) {
    for (const auto* one : {"1", "+1", "1.0", "01", "1e0", "1.", "100e-2"})
        EXPECT_EQ(canonical_label(one), "1");
    EXPECT_EQ(canonical_label("-1.0"), "-1");
    EXPECT_EQ(canonical_label("-0"), "0");
    EXPECT_EQ(canonical_label("-0.0"), "0");
    EXPECT_EQ(canonical_label("0.50"), "0.5");
    EXPECT_EQ(canonical_label("1e3"), "1000");
    EXPECT_EQ(canonical_label("12345678901234567891"), "12345678901234567891");
}

TEST(CanonicalLabel, LeavesTextAndItselfAlone) {
    for (const auto* text : {"g", "", "-", "+", "1a", "0x1", " 1", "nan", "1e999", "c'est", "+-1"}) {
        EXPECT_EQ(canonical_label(text), text);
    }
    for (const auto* text : {"1e21", "1.5e-7", "+7.25", "123456789012345678"}) {
        const auto once = canonical_label(text);
        EXPECT_EQ(canonical_label(once), once);
    }
}

Table small() {
    Table table;
    table.x = Matrix<float>(2, 2);
    table.x(0, 1) = 1.5F;
    table.x(1, 0) = -2;
    table.labels = {"a", "10"};
    return table;
}

TEST(TableSha256, HashesTheDocumentedBytes) {
    std::string bytes;
    const auto u64 = [&](std::uint64_t v) { bytes.append(reinterpret_cast<const char*>(&v), 8); };
    const auto f32 = [&](float v) { bytes.append(reinterpret_cast<const char*>(&v), 4); };
    u64(2);
    u64(2);
    for (const float v : {0.0F, 1.5F, -2.0F, 0.0F}) f32(v);
    u64(2);
    u64(1);
    bytes += "a";
    u64(2);
    bytes += "10";
    EXPECT_EQ(table_sha256(small()), sha256_hex(bytes));
}

TEST(TableSha256, AgreesBetweenSpellingsOfOneTable) {
    const auto reference = table_sha256(small());
    EXPECT_EQ(table_sha256(table_of("a 2:1.5\n10 1:-2\n", {.format = Format::libsvm})), reference);
    EXPECT_EQ(table_sha256(table_of("a 1:-0 2:15e-1\r\n10.0 1:-2.0 2:0", {.format = Format::libsvm})),
              reference);
    EXPECT_EQ(
        table_sha256(table_of("u;v;y\n0;1.50;a\n-2;0;+10\n", {.format = Format::csv, .label_column = "y"})),
        reference);
    auto other = small();
    other.labels[0] = "b";
    EXPECT_NE(table_sha256(other), reference);
    other = small();
    other.x(1, 1) = 1e-45F;
    EXPECT_NE(table_sha256(other), reference);
}

Table awkward() {
    Table table;
    table.x = Matrix<float>(1000, 6);
    fill_normal(5, Stream::test, 0, table.x.values());
    for (std::size_t r = 0; r < 1000; ++r) {
        // Every exponent, as bits, except infinities; and a last column of zeros.
        const auto bits = random_bits(6, Stream::test, r);
        table.x(r, 0) = std::bit_cast<float>((bits & 0x7f800000U) == 0x7f800000U ? bits & 0x807fffffU : bits);
        table.x(r, 5) = 0;
        table.labels.emplace_back(r % 2 == 0 ? "-1" : "word");
    }
    table.x(0, 1) = -0.0F;
    table.x(0, 2) = std::numeric_limits<float>::max();
    table.x(0, 3) = std::numeric_limits<float>::denorm_min();
    return table;
}

void expect_same_bits(const Table& a, const Table& b) {
    ASSERT_EQ(a.x.rows(), b.x.rows());
    ASSERT_EQ(a.x.cols(), b.x.cols());
    EXPECT_EQ(std::memcmp(a.x.data(), b.x.data(), a.x.values().size_bytes()), 0);
    EXPECT_EQ(a.labels, b.labels);
}

TEST(WriteLibsvm, ReadsBackTheSameBits) {
    const TempDir dir;
    write_libsvm(dir / "a.libsvm", awkward());
    expect_same_bits(read_table(dir / "a.libsvm", {}), awkward());
}

TEST(WriteCsv, ReadsBackTheSameBits) {
    const TempDir dir;
    auto table = awkward();
    table.labels[3] = "with \"quotes\", commas";
    table.labels[4] = " blanks ";
    table.labels[5] = "\"";
    table.labels[6] = "two\nlines";
    table.labels[7] = "\r\n\n\",\"\n";
    table.labels[8] = "\ttab\t; semicolon";
    table.labels[9] = "#f0,label";
    write_csv(dir / "a.csv", table);
    expect_same_bits(read_table(dir / "a.csv", {.label_column = "last"}), table);
    table.labels.clear();
    write_csv(dir / "b.csv", table);
    expect_same_bits(read_table(dir / "b.csv", {.label_column = "none"}), table);
}

TEST(Writers, RefuseWhatCouldNotBeReadBackAndLeaveNothing) {
    const TempDir dir;
    const auto fault = [&](const auto& change) {
        auto table = small();
        change(table);
        const auto a = error_of([&] { write_libsvm(dir / "a", table); });
        const auto b = error_of([&] { write_csv(dir / "a", table); });
        EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
        return a + " | " + b;
    };
    EXPECT_THAT(fault([](Table& t) { t.x(1, 0) = std::numeric_limits<float>::infinity(); }),
                HasSubstr("row 2, column 1: the value is not finite"));
    EXPECT_THAT(fault([](Table& t) { t.labels[1] = "nan"; }), HasSubstr("the label 'nan' cannot be written"));
    EXPECT_THAT(fault([](Table& t) { t.labels[1] = ""; }), HasSubstr("the label '' cannot be written"));
    EXPECT_THAT(fault([](Table& t) { t.labels.pop_back(); }), HasSubstr("1 labels for 2 rows"));
    EXPECT_THAT(fault([](Table& t) { t = {}; }), HasSubstr("without rows or columns"));
    auto lines = small();
    lines.labels[1] = "a\nb";
    EXPECT_THAT(error_of([&] { write_libsvm(dir / "a", lines); }),
                HasSubstr("the label 'a\\x0ab' cannot be written"));
    auto unlabelled = small();
    unlabelled.labels.clear();
    EXPECT_THAT(error_of([&] { write_libsvm(dir / "a", unlabelled); }), HasSubstr("begin with a label"));
    auto blank = small();
    blank.labels[0] = "a b";
    EXPECT_THAT(error_of([&] { write_libsvm(dir / "a", blank); }), HasSubstr("'a b' cannot be written"));
    EXPECT_THAT(error_of([&] { write_csv(dir / "no" / "a", small()); }), StartsWith("io: "));
}

// Reads 2 million rows, 24 MB of text in a small compressed file, in far less memory than the text.
TEST(RowReader, ReadsLongFilesInBoundedMemory) {
    const TempDir dir;
    {
        std::string text;
        for (int i = 0; i < 2'000'000; ++i) text += "1 1:0.5 2:3\n";
        std::ofstream(dir / "a.libsvm.xz", std::ios::binary) << xz_bytes(text);
        for (auto& c : text) c = c == ':' || c == ' ' ? ',' : c;
        std::ofstream(dir / "a.csv.zst", std::ios::binary) << zstd_bytes(text);
    }
    ASSERT_LT(std::filesystem::file_size(dir / "a.libsvm.xz"), 100'000U);
    const auto data_bytes = [] {
        std::ifstream in("/proc/self/statm");
        std::size_t pages = 0;
        in >> pages;
        return pages * 4096;
    };
    for (const auto* name : {"a.libsvm.xz", "a.csv.zst"}) {
        const auto before = data_bytes();
        const auto reader = open_rows(dir / name, {});
        Row row;
        std::size_t rows = 0;
        double sum = 0;
        while (reader->next(row)) {
            ++rows;
            sum += row.values[0] + row.values[1];
        }
        EXPECT_EQ(rows, 2'000'000U);
        EXPECT_GT(sum, 0);
        // Sanitizers keep freed memory.
        if (std::string(IMKA_SANITIZE).empty()) {
            EXPECT_LT(data_bytes(), before + 16'000'000) << name;
        }
    }
}

}  // namespace
}  // namespace imka

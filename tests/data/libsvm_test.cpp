// LIBSVM text: valid files and the message for each kind of error.
#include "imka/data/libsvm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/rows.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Table read(std::string_view text, std::optional<std::uint32_t> features = {}) {
    return table_of(text, {.format = Format::libsvm, .features = features});
}

std::string fault(std::string_view text, std::optional<std::uint32_t> features = {}) {
    return error_of([&] { read(text, features); });
}

TEST(Libsvm, ReadsLabelsAndPairs) {
    const auto table = read("+1 1:0.5 3:-2e3\n-1.0 2:1\n");
    EXPECT_EQ(table.x.rows(), 2U);
    EXPECT_EQ(table.x.cols(), 3U);
    EXPECT_EQ(values_of(table), (Floats{0.5F, 0, -2000, 0, 1, 0}));
    EXPECT_EQ(table.labels, (Texts{"1", "-1"}));
}

TEST(Libsvm, ReadsCommentsBlankLinesAndAnyLineEnd) {
    const auto table = read("# head\n\n  1 1:2 # tail 9:9\r\n\t\r\n2\t1:+3  \r\n3 1:4");
    EXPECT_EQ(values_of(table), (Floats{2, 3, 4}));
    EXPECT_EQ(table.labels, (Texts{"1", "2", "3"}));
}

TEST(Libsvm, GivesSparseRowsWithLineNumbers) {
    const auto reader = read_libsvm(ByteStream("memory", "a\n\nb 2:7 5:8\n", {}), {});
    EXPECT_EQ(reader->features(), std::nullopt);
    Row row;
    ASSERT_TRUE(reader->next(row));
    EXPECT_TRUE(row.sparse);
    EXPECT_TRUE(row.values.empty());
    EXPECT_EQ(row.label, "a");
    ASSERT_TRUE(reader->next(row));
    EXPECT_EQ(row.line, 3U);
    EXPECT_THAT(row.indices, testing::ElementsAre(1, 4));
    EXPECT_THAT(row.values, testing::ElementsAre(7, 8));
    EXPECT_FALSE(reader->next(row));
}

TEST(Libsvm, HasTheColumnsAskedFor) {
    EXPECT_EQ(values_of(read("1 1:1\n", 3)), (Floats{1, 0, 0}));
    EXPECT_EQ(fault("1 1:1\n2 4:1\n", 3),
              "bad_data: memory: line 2: feature index 4 exceeds the expected 3 features");
}

TEST(Libsvm, RoundsToTheNearestFloat) {
    const auto table = read(
        "1 1:0.1 2:16777217 3:1e-50 4:3.4028235e38 5:1e-45 "
        "6:0.000000000000000000000000000000000000000001e3\n");
    EXPECT_EQ(values_of(table), (Floats{0.1F, 16777216.0F, 0.0F, 3.4028235e38F, 1e-45F, 1e-39F}));
}

TEST(Libsvm, NamesTheLineOfEachFault) {
    EXPECT_EQ(fault("1 1:1\n1:5 2:3\n"),
              "bad_data: memory: line 2: the label is missing: the line begins with '1:5'");
    EXPECT_EQ(fault("nan 1:1\n"), "bad_data: memory: line 1: 'nan' is not a label");
    EXPECT_EQ(fault("1 0:1\n"), "bad_data: memory: line 1: feature index 0: indices start at 1");
    EXPECT_EQ(fault("1 -3:1\n"), "bad_data: memory: line 1: '-3:1': indices start at 1");
    EXPECT_EQ(fault("1 2:1 2:1\n"), "bad_data: memory: line 1: duplicate feature index 2");
    EXPECT_EQ(fault("1 3:1 2:1\n"),
              "bad_data: memory: line 1: feature index 2 follows 3: indices must increase");
    EXPECT_EQ(fault("1 2147483649:1\n"),
              "bad_data: memory: line 1: the feature index in '2147483649:1' exceeds 2^31");
    EXPECT_EQ(fault("1 99999999999999999999999:1\n"),
              "bad_data: memory: line 1: the feature index in '99999999999999999999999:1' exceeds 2^31");
    EXPECT_THAT(fault("1 qid:3 1:1\n"), HasSubstr("line 1: 'qid:' (ranking data) is not supported"));
    EXPECT_EQ(fault("1 1:1 word\n"), "bad_data: memory: line 1: 'word' is not of the form index:value");
    EXPECT_EQ(fault("1 5\n"), "bad_data: memory: line 1: '5' is not of the form index:value");
    EXPECT_EQ(fault("1 1:\n"), "bad_data: memory: line 1: feature 1: the value is missing");
    EXPECT_EQ(fault("1 1:2x\n"), "bad_data: memory: line 1: feature 1: '2x' is not a number");
    EXPECT_EQ(fault("1 1:+-2\n"), "bad_data: memory: line 1: feature 1: '+-2' is not a number");
    EXPECT_EQ(fault(std::string_view("1 1:2\0\n", 7)),
              "bad_data: memory: line 1: feature 1: '2\\x00' is not a number");
}

TEST(Libsvm, RefusesValuesThatAreNotFiniteFloats) {
    for (const auto* value : {"nan", "NaN", "-nan", "inf", "+inf", "-Infinity"}) {
        EXPECT_EQ(fault(std::string("1 1:") + value + "\n"),
                  std::string("bad_data: memory: line 1: feature 1: '") + value + "' is not a finite number");
    }
    for (const auto* value : {"3.5e38", "-1e39", "1e400", "1e99999999999999999999"}) {
        EXPECT_EQ(fault(std::string("1 1:") + value + "\n"),
                  std::string("bad_data: memory: line 1: feature 1: '") + value +
                      "' is beyond the range of 32-bit numbers");
    }
}

TEST(Libsvm, RefusesTablesOfAbsurdSize) {
    EXPECT_EQ(fault("1 1:1\n1 1:1 2000000000:1\n"),
              "bad_data: memory: line 2: 2000000000 columns; a table in memory has at most 16777216");
    std::string many;
    for (int i = 0; i < 1'000'000; ++i) many += "1\n";
    many += "1 16777216:1\n";  // 67 TB when dense
    EXPECT_THAT(fault(many), HasSubstr("bad_data: memory: the table of 1000001 x 16777216 values needs"));
}

TEST(Libsvm, RefusesFilesWithoutRowsOrFeatures) {
    EXPECT_EQ(fault(""), "bad_data: memory: has no rows");
    EXPECT_EQ(fault("# only a comment\n\n"), "bad_data: memory: has no rows");
    EXPECT_EQ(fault("1\n2\n"),
              "bad_data: memory: no row has a feature; expected lines of the form 'label index:value ...'");
}

TEST(Libsvm, CannotDropColumns) {
    EXPECT_EQ(error_of([] { table_of("1 1:1\n", {.format = Format::libsvm, .drop_columns = {"0"}}); }),
              "bad_config: memory: columns of LIBSVM files cannot be dropped");
}

}  // namespace
}  // namespace imka

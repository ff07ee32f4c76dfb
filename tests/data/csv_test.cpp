// Delimited text: valid files and the message for each kind of error.
#include "imka/data/csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/rows.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Table read(std::string_view text, ReadOptions options = {}) {
    options.format = Format::csv;
    return table_of(text, options);
}

std::string fault(std::string_view text, const ReadOptions& options = {}) {
    return error_of([&] { read(text, options); });
}

TEST(Csv, ReadsEveryDelimiter) {
    for (const auto* text :
         {"1.5,2,a\n3,4,b\n", "1.5\t2\ta\r\n3\t4\tb", "1.5;2;a\n\n3;4;b\n", "  1.5   2 a\n3 \t4  b  \n",
          " 1.5 , 2,a \n3,4,b\n", "1.5,2,\"a\"\n\"3\",4,b\n"}) {
        const auto table = read(text);
        EXPECT_EQ(values_of(table), (Floats{1.5F, 2, 3, 4})) << text;
        EXPECT_EQ(table.labels, (Texts{"a", "b"})) << text;
    }
    EXPECT_EQ(values_of(read("1|2|a\n", {.delimiter = '|'})), (Floats{1, 2}));
}

TEST(Csv, FindsAHeader) {
    const auto reader = read_csv(ByteStream("memory", "width,\"len,gth\",class\n1,2,a\n", {}), {});
    EXPECT_EQ(reader->features(), 2U);
    EXPECT_EQ(reader->feature_names(), (Texts{"width", "len,gth"}));
    Row row;
    ASSERT_TRUE(reader->next(row));
    EXPECT_THAT(row.values, testing::ElementsAre(1, 2));
    EXPECT_EQ(row.label, "a");
    EXPECT_EQ(row.line, 2U);
    EXPECT_FALSE(reader->next(row));
}

TEST(Csv, FollowsTheHeaderOption) {
    EXPECT_EQ(read("1,2,a\n3,4,b\n", {.header = true}).x.rows(), 1U);
    EXPECT_THAT(fault("x,y,a\n3,4,b\n", {.header = false}),
                HasSubstr("line 1: column 0: 'x' is not a number"));
}

TEST(Csv, DoesNotGuessWhereNamesCountLikeARow) {
    EXPECT_EQ(fault("0,1,label\n5,6,a\n"),
              "bad_data: memory: line 1: can be names or values; set the header option");
    EXPECT_EQ(values_of(read("0,1,label\n5,6,a\n", {.header = true})), (Floats{5, 6}));
    EXPECT_EQ(values_of(read("0,1,2\n5,6,7\n")), (Floats{0, 1, 5, 6}));
}

TEST(Csv, PutsTheLabelWhereAskedFor) {
    const auto* text = "y,a,b\n1,2,3\n";
    EXPECT_EQ(read(text, {.label_column = "first"}).labels, Texts{"1"});
    EXPECT_EQ(values_of(read(text, {.label_column = "y"})), (Floats{2, 3}));
    EXPECT_EQ(values_of(read(text, {.label_column = "1"})), (Floats{1, 3}));
    EXPECT_EQ(values_of(read(text)), (Floats{1, 2}));
    const auto unlabelled = read(text, {.label_column = "none"});
    EXPECT_EQ(values_of(unlabelled), (Floats{1, 2, 3}));
    EXPECT_TRUE(unlabelled.labels.empty());
}

TEST(Csv, DropsColumns) {
    EXPECT_EQ(values_of(read("-1,P,2,4\n", {.label_column = "1", .drop_columns = {"0"}})), (Floats{2, 4}));
    EXPECT_EQ(values_of(read("id,a,y\nx7,2,3\n", {.drop_columns = {"id"}})), (Floats{2}));
    EXPECT_THAT(fault("a,b\n1,2\n", {.drop_columns = {"b"}}),
                HasSubstr("is the label and cannot be dropped"));
    EXPECT_THAT(fault("a,b\n1,2\n", {.drop_columns = {"0"}}), HasSubstr("no column left for features"));
}

TEST(Csv, NamesColumnsThatAreNotThere) {
    EXPECT_EQ(fault("a,b\n1,2\n", {.label_column = "c"}),
              "bad_config: memory: there is no column 'c'; it has 'a', 'b'");
    EXPECT_EQ(fault("1,2\n", {.label_column = "7"}),
              "bad_config: memory: there is no column '7'; it has columns 0 to 1 without names");
    EXPECT_THAT(fault("a,a,b\n1,2,3\n", {.label_column = "a"}), HasSubstr("two columns are named 'a'"));
}

TEST(Csv, ReadsQuotes) {
    const auto table = read("1,\"a \"\"b\"\", c\"\n2, \" d \" \n");
    EXPECT_EQ(table.labels, (Texts{"a \"b\", c", " d "}));
    EXPECT_THAT(fault("1,\"two\nlines\"\n"), HasSubstr("line 1: a quote is not closed (line breaks inside"));
    EXPECT_THAT(fault("1,\"a\"b\n"), HasSubstr("line 1: text follows the closing quote of field 1"));
}

TEST(Csv, NamesLineAndColumnOfEachFault) {
    EXPECT_EQ(fault("1,2,a\n3,b\n"), "bad_data: memory: line 2: 2 fields, but the first line has 3");
    EXPECT_EQ(fault("1,2,a\n3,4,5,b\n"), "bad_data: memory: line 2: 4 fields, but the first line has 3");
    EXPECT_EQ(fault("1,2,a\n3,,b\n"), "bad_data: memory: line 2: column 1: the value is missing");
    EXPECT_EQ(
        fault("u,v,w\n1,2,a\n3,NA,b\n"),
        "bad_data: memory: line 3: column 1 ('v'): 'NA' is not a number; choose the label column or drop "
        "this one");
    EXPECT_EQ(fault("1,nan,a\n"), "bad_data: memory: line 1: column 1: 'nan' is not a finite number");
    EXPECT_EQ(fault("1,inf,a\n"), "bad_data: memory: line 1: column 1: 'inf' is not a finite number");
    EXPECT_EQ(fault("1,1e39,a\n"),
              "bad_data: memory: line 1: column 1: '1e39' is beyond the range of 32-bit numbers");
    EXPECT_EQ(fault("1,2,a\n3,4,\n"), "bad_data: memory: line 2: column 2: an empty field is not a label");
    EXPECT_EQ(fault("1,2,a\n3,4,NaN\n"), "bad_data: memory: line 2: column 2: 'NaN' is not a label");
    EXPECT_THAT(fault("T,2,8,3\nI,5,12,3\n"), HasSubstr("line 1: column 0: 'T' is not a number; choose"));
}

TEST(Csv, RefusesFilesWithoutRows) {
    EXPECT_EQ(fault(""), "bad_data: memory: holds no rows");
    EXPECT_EQ(fault("\n \n"), "bad_data: memory: holds no rows");
    EXPECT_EQ(fault("a,b\n"), "bad_data: memory: holds a header but no rows");
    EXPECT_THAT(fault("1\n2\n"), HasSubstr("no column left for features; the file has 1 column"));
}

TEST(Csv, RefusesTheWrongNumberOfFeatures) {
    EXPECT_EQ(fault("1,2,a\n", {.features = 3}), "bad_data: memory: 2 feature columns, expected 3");
    EXPECT_THAT(fault("1\n", {.delimiter = '"'}), HasSubstr("bad_config: delimiter"));
}

}  // namespace
}  // namespace imka

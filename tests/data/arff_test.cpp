// ARFF: valid files and the message for each kind of error.
#include "imka/data/arff.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/rows.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Table read_text(const std::string& text, ReadOptions options = {}) {
    options.format = Format::arff;
    if (options.label_column.empty()) options.label_column = "last";
    return table_of(text, options);
}

std::string arff_fault(const std::string& text, const ReadOptions& options = {}) {
    return error_of([&] { read_text(text, options); });
}

const std::string kHead =
    "% a comment\r\n@RELATION 'some thing'\r\n\r\n@ATTRIBUTE a NUMERIC\r\n@attribute 'b c' real\n"
    "@attribute class {x, 'y z', \"w\"}\n@DATA\n";

TEST(Arff, ReadsHeaderAndRows) {
    const auto table = read_text(kHead + "1,2.5,x\n% between\n\n 3 , -4 , 'y z'\r\n5,6,w");
    EXPECT_EQ(values_of(table), (Floats{1, 2.5F, 3, -4, 5, 6}));
    EXPECT_EQ(table.labels, (Texts{"x", "y z", "w"}));
}

TEST(Arff, KnowsItsColumns) {
    const auto text = kHead + "1,2,x\n";
    const auto reader = read_arff(ByteStream("memory", text, {}), {});
    EXPECT_EQ(reader->features(), 2U);
    EXPECT_EQ(reader->feature_names(), (Texts{"a", "b c"}));
}

TEST(Arff, ReadsSparseRows) {
    const auto table = read_text(kHead + "{1 7, 2 w}\n{}\n{ 0 -1 , 2 'y z' }\n{2 \"w\"}\n");
    EXPECT_EQ(values_of(table), (Floats{0, 7, 0, 0, -1, 0, 0, 0}));
    EXPECT_EQ(table.labels, (Texts{"w", "x", "y z", "w"}));  // the first declared value is left out
}

TEST(Arff, FillsNominalNumbersOfSparseRowsWithTheFirstDeclared) {
    const auto table =
        read_text("@relation r\n@attribute a {5,6}\n@attribute y numeric\n@data\n{}\n{0 6,1 2}\n");
    EXPECT_EQ(values_of(table), (Floats{5, 6}));
    EXPECT_EQ(table.labels, (Texts{"0", "2"}));
}

TEST(Arff, ReadsEscapedQuotes) {
    const auto table = read_text(
        "@relation r\n@attribute a real\n@attribute c {'it\\'s','q\\\\'}\n@data\n1,'it\\'s'\n2,'q\\\\'\n");
    EXPECT_EQ(table.labels, (Texts{"it's", "q\\"}));
}

TEST(Arff, TakesTextColumnsOnlyAsLabelOrDropped) {
    const std::string head =
        "@relation r\n@attribute s string\n@attribute a real\n@attribute n {red,blue}\n@data\n";
    EXPECT_EQ(
        arff_fault(head + "t,1,red\n", {.advise = true}),
        "bad_data: memory: attribute 's' holds text, not numbers; use --label-column to choose the label, "
        "--drop-columns to skip columns");
    EXPECT_EQ(values_of(read_text(head + "t,1,red\n", {.drop_columns = {"s"}})), Floats{1});
    EXPECT_EQ(read_text(head + "t,1,red\n", {.label_column = "s", .drop_columns = {"3"}}).labels, Texts{"t"});
    EXPECT_THAT(arff_fault(head + "t,1,red\n", {.label_column = "s"}), HasSubstr("attribute 'n' holds text"));
    EXPECT_EQ(arff_fault(head + "{1 1}\n", {.label_column = "s", .drop_columns = {"n"}}),
              "bad_data: memory: line 6: the label is missing");
}

TEST(Arff, NamesLineAndColumnOfEachFault) {
    EXPECT_EQ(arff_fault(kHead + "1,?,x\n"),
              "bad_data: memory: line 8: column 2 ('b c'): '?' is a missing value");
    EXPECT_THAT(arff_fault(kHead + "1,?,x\n", {.advise = true}), HasSubstr("--missing drop skips such rows"));
    EXPECT_EQ(values_of(read_text(kHead + "1,?,x\n2,3,?\n4,5,x\n", {.missing = Missing::drop})),
              (Floats{4, 5}));
    EXPECT_EQ(values_of(read_text(kHead + "1,?,x\n", {.drop_columns = {"b c"}})), Floats{1}) << "not needed";
    EXPECT_THAT(arff_fault(kHead + "1,2,?\n"),
                HasSubstr("line 8: column 3 ('class'): '?' is a missing value"));
    EXPECT_EQ(arff_fault(kHead + "1,2\n"),
              "bad_data: memory: line 8: 2 fields, but 3 attributes are declared");
    EXPECT_EQ(arff_fault(kHead + "1,2,x,4\n"),
              "bad_data: memory: line 8: 4 fields, but 3 attributes are declared");
    EXPECT_EQ(arff_fault(kHead + "1,2,v\n"),
              "bad_data: memory: line 8: column 3 ('class'): 'v' is not one of the declared values");
    EXPECT_EQ(arff_fault(kHead + "1,b,x\n"),
              "bad_data: memory: line 8: column 2 ('b c'): 'b' is not a number");
    EXPECT_EQ(arff_fault(kHead + "1,,x\n"),
              "bad_data: memory: line 8: column 2 ('b c'): the value is missing");
    EXPECT_THAT(arff_fault(kHead + "nan,1,x\n"),
                HasSubstr("line 8: column 1 ('a'): 'nan' is not a finite number"));
    EXPECT_THAT(arff_fault(kHead + "-inf,1,x\n"), HasSubstr("'-inf' is not a finite number"));
    EXPECT_THAT(arff_fault(kHead + "1e39,1,x\n"), HasSubstr("'1e39' is beyond the range of 32-bit numbers"));
    EXPECT_THAT(arff_fault(kHead + "1,2,'x\n"), HasSubstr("line 8: a quote is not closed"));
    EXPECT_THAT(arff_fault(kHead + "1,'2' 3,x\n"), HasSubstr("line 8: expected a comma before '3,x'"));
}

TEST(Arff, NamesFaultsOfSparseRows) {
    EXPECT_THAT(arff_fault(kHead + "{3 1}\n"), HasSubstr("line 8: '3' is not an attribute number (0 to 2)"));
    EXPECT_THAT(arff_fault(kHead + "{x 1}\n"), HasSubstr("'x' is not an attribute number"));
    EXPECT_THAT(arff_fault(kHead + "{1 1,0 1}\n"),
                HasSubstr("attribute 0: attribute numbers of a sparse row must increase"));
    EXPECT_THAT(arff_fault(kHead + "{1 1,1 1}\n"),
                HasSubstr("attribute 1: attribute numbers of a sparse row must increase"));
    EXPECT_THAT(arff_fault(kHead + "{1 1\n"), HasSubstr("must end with '}'"));
    EXPECT_THAT(arff_fault(kHead + "{1 1} x\n"), HasSubstr("'x' follows the end of the row"));
    EXPECT_THAT(arff_fault(kHead + "{1}\n"), HasSubstr("is not an attribute number"));
}

TEST(Arff, NamesFaultsOfTheHeader) {
    EXPECT_EQ(arff_fault(""), "bad_data: memory: ends before @data");
    EXPECT_EQ(arff_fault("@relation r\n@attribute a real\n"), "bad_data: memory: ends before @data");
    EXPECT_EQ(arff_fault("@relation r\n@data\n1\n"),
              "bad_data: memory: line 2: @data comes before any @attribute");
    EXPECT_EQ(arff_fault(kHead), "bad_data: memory: has no rows after @data");
    EXPECT_THAT(arff_fault("1,2,3\n"),
                HasSubstr("line 1: expected @relation, @attribute or @data, not '1,2,3'"));
    EXPECT_THAT(arff_fault("@attribute\n"), HasSubstr("line 1: the attribute has no name"));
    EXPECT_THAT(arff_fault("@attribute a relational\n"),
                HasSubstr("attribute 'a': unsupported type 'relational'"));
    EXPECT_THAT(arff_fault("@attribute a {x,y\n"), HasSubstr("the list of values must end with '}'"));
    EXPECT_THAT(arff_fault("@attribute a {x,,y}\n"), HasSubstr("a nominal value is empty"));
    EXPECT_THAT(arff_fault("@attribute 'a real\n"), HasSubstr("a quote is not closed"));
}

}  // namespace
}  // namespace imka

// Delimited text: valid files and the message for each kind of error.
#include "imka/data/csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/rows.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

// The label is the last column unless a test says otherwise.
Table read_csv_table(std::string_view text, ReadOptions options = {}) {
    options.format = Format::csv;
    if (options.label_column.empty()) options.label_column = "last";
    return table_of(text, options);
}

std::string csv_fault(std::string_view text, const ReadOptions& options = {}) {
    return error_of([&] { read_csv_table(text, options); });
}

TEST(Csv, ReadsEveryDelimiter) {
    for (const auto* text :
         {"1.5,2,a\n3,4,b\n", "1.5\t2\ta\r\n3\t4\tb", "1.5;2;a\n\n3;4;b\n", "  1.5   2 a\n3 \t4  b  \n",
          " 1.5 , 2,a \n3,4,b\n", "1.5,2,\"a\"\n\"3\",4,b\n"}) {
        const auto table = read_csv_table(text);
        EXPECT_EQ(values_of(table), (Floats{1.5F, 2, 3, 4})) << text;
        EXPECT_EQ(table.labels, (Texts{"a", "b"})) << text;
    }
    EXPECT_EQ(values_of(read_csv_table("1|2|a\n", {.delimiter = '|'})), (Floats{1, 2}));
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
    EXPECT_EQ(read_csv_table("1,2,a\n3,4,b\n", {.header = Header::yes}).x.rows(), 1U);
    EXPECT_THAT(csv_fault("x,y,a\n3,4,b\n", {.header = Header::no}),
                HasSubstr("line 1: column 1: 'x' is not a number"));
}

TEST(Csv, RecognisesNamesThatAreNumbers) {
    EXPECT_EQ(values_of(read_csv_table("0,1,label\n5,6,a\n")), (Floats{5, 6}));
    EXPECT_EQ(values_of(read_csv_table("2019,2020,outcome\n5,6,a\n7,8,b\n")), (Floats{5, 6, 7, 8}));
    EXPECT_EQ(values_of(read_csv_table("2019,2020,outcome\n5,6,1\n")), (Floats{5, 6}));
    EXPECT_EQ(values_of(read_csv_table("0,1,2,3\n5,6,7,1\n", {.advise = true})), (Floats{5, 6, 7}));
    EXPECT_EQ(read_csv_table("0,1,2,3\n5,6,7,1\n").x.rows(), 2U) << "no option could overrule the guess";
    EXPECT_EQ(values_of(read_csv_table("0,1,2,label\n5,6,7,1\n")), (Floats{5, 6, 7}));
    EXPECT_EQ(values_of(read_csv_table("id,2,label\n5,6,a\n")), (Floats{5, 6})) << "one name is enough";
    // First rows that look like names, but are data: the class occurs again, the count continues, the row is
    // repeated.
    EXPECT_EQ(read_csv_table("0,1,yes\n1,0,no\n0,1,yes\n").x.rows(), 3U);
    EXPECT_EQ(read_csv_table("1,2,a\n3,4,b\n").x.rows(), 2U);
    EXPECT_EQ(read_csv_table("0,1,2,3\n4,5,6,7\n", {.advise = true}).x.rows(), 2U);
    EXPECT_EQ(read_csv_table("0,1,2,3\n5,6,7,8\n0,1,2,3\n", {.advise = true}).x.rows(), 3U);
    EXPECT_EQ(read_csv_table("5.1,3.5,A\n4.9,3.0,7\n4.7,3.2,B\n").x.rows(), 3U) << "classes A and 7";
    EXPECT_EQ(read_csv_table("NA,1,a\n2,3,b\n", {.missing = Missing::drop}).x.rows(), 1U)
        << "a missing value";
    EXPECT_EQ(values_of(read_csv_table("0,1,label\n5,6,a\n", {.header = Header::yes})), (Floats{5, 6}));
    EXPECT_EQ(values_of(read_csv_table("0,1,2\n5,6,7\n")), (Floats{0, 1, 5, 6}));
}

TEST(Csv, PutsTheLabelWhereAskedFor) {
    const auto* text = "y,a,b\n1,2,3\n";
    EXPECT_EQ(read_csv_table(text, {.label_column = "first"}).labels, Texts{"1"});
    EXPECT_EQ(values_of(read_csv_table(text, {.label_column = "y"})), (Floats{2, 3}));
    EXPECT_EQ(values_of(read_csv_table(text, {.label_column = "2"})), (Floats{1, 3}));
    EXPECT_EQ(values_of(read_csv_table(text)), (Floats{1, 2}));
    const auto unlabelled = read_csv_table(text, {.label_column = "none"});
    EXPECT_EQ(values_of(unlabelled), (Floats{1, 2, 3}));
    EXPECT_TRUE(unlabelled.labels.empty());
}

TEST(Csv, DropsColumns) {
    EXPECT_EQ(values_of(read_csv_table("-1,P,2,4\n", {.label_column = "2", .drop_columns = {"1"}})),
              (Floats{2, 4}));
    EXPECT_EQ(values_of(read_csv_table("id,a,y\nx7,2,3\n", {.drop_columns = {"id"}})), (Floats{2}));
    EXPECT_THAT(csv_fault("a,b\n1,2\n", {.drop_columns = {"b"}}),
                HasSubstr("is the label and cannot be dropped"));
    EXPECT_THAT(csv_fault("a,b\n1,2\n", {.drop_columns = {"1"}}), HasSubstr("no column left for features"));
}

TEST(Csv, NamesColumnsThatAreNotThere) {
    EXPECT_EQ(csv_fault("a,b\n1,2\n", {.label_column = "c"}),
              "bad_config: memory: there is no column 'c'; it has 'a', 'b'");
    EXPECT_EQ(csv_fault("1,2\n", {.label_column = "7"}),
              "bad_config: memory: there is no column '7'; it has columns 1 to 2 without names");
    EXPECT_EQ(csv_fault("1,2\n", {.label_column = "0"}),
              "bad_config: memory: there is no column 0; columns are counted from 1");
    EXPECT_THAT(csv_fault("a,a,b\n1,2,3\n", {.label_column = "a"}), HasSubstr("two columns are named 'a'"));
}

TEST(Csv, ReadsQuotes) {
    const auto table = read_csv_table("1,\"a \"\"b\"\", c\"\n2, \" d \" \n");
    EXPECT_EQ(table.labels, (Texts{"a \"b\", c", " d "}));
    EXPECT_EQ(read_csv_table("1,\"two\nlines\"\n2,\"\"\"\r\n\"\" , \"\n").labels,
              (Texts{"two\nlines", "\"\r\n\" , "}));
    EXPECT_THAT(csv_fault("1,a\n1,\"two\nlines\n"), HasSubstr("line 2: a quote is not closed"));
    EXPECT_THAT(csv_fault("1,\"a\"b\n"), HasSubstr("line 1: text follows the closing quote of field 2"));
    EXPECT_THAT(csv_fault("1,\"a\nb\"\n2,\n"), HasSubstr("line 3: column 2: an empty field"));
}

TEST(Csv, NamesLineAndColumnOfEachFault) {
    EXPECT_EQ(csv_fault("1,2,a\n3,b\n"), "bad_data: memory: line 2: 2 fields, but the first line has 3");
    EXPECT_EQ(csv_fault("1,2,a\n3,4,5,b\n"), "bad_data: memory: line 2: 4 fields, but the first line has 3");
    EXPECT_EQ(csv_fault("1,2,a\n3,,b\n"), "bad_data: memory: line 2: column 2: the value is missing");
    EXPECT_EQ(csv_fault("u,v,w\n1,2,a\n3,NA,b\n"),
              "bad_data: memory: line 3: column 2 ('v'): 'NA' is a missing value");
    EXPECT_EQ(csv_fault("u,v,w\n1,2,a\n3,NA,b\n", {.advise = true}),
              "bad_data: memory: line 3: column 2 ('v'): 'NA' is a missing value; --missing drop skips such "
              "rows, --missing mean uses the mean of the column");
    EXPECT_EQ(csv_fault("u,v,w\n1,2,a\n3,x,b\n", {.advise = true}),
              "bad_data: memory: line 3: column 2 ('v'): 'x' is not a number; use --label-column to choose "
              "the label, --drop-columns to skip columns");
    EXPECT_EQ(csv_fault("1,nan,a\n"), "bad_data: memory: line 1: column 2: 'nan' is not a finite number");
    EXPECT_EQ(csv_fault("1,inf,a\n"), "bad_data: memory: line 1: column 2: 'inf' is not a finite number");
    EXPECT_EQ(csv_fault("1,1e39,a\n"),
              "bad_data: memory: line 1: column 2: '1e39' is beyond the range of 32-bit numbers");
    EXPECT_EQ(csv_fault("1,2,a\n3,4,\n"),
              "bad_data: memory: line 2: column 3: an empty field is not a label");
    EXPECT_EQ(csv_fault("1,2,a\n3,4,NaN\n"), "bad_data: memory: line 2: column 3: 'NaN' is not a label");
    EXPECT_THAT(csv_fault("T,2,8,3\nI,5,12,3\n"), HasSubstr("line 1: column 1: 'T' is not a number"));
}

TEST(Csv, WithoutALabelColumnTextAndTheNumberOfFeaturesDecide) {
    const auto features = [](std::string_view text, const ReadOptions& options = {}) {
        return *read_csv(ByteStream("memory", text, {}), options)->features();
    };
    EXPECT_EQ(features("a,b,c\n1,2,3\n"), 3U) << "numbers are features";
    EXPECT_EQ(features("a,b,c\n1,2,x\n"), 2U) << "text is the label";
    EXPECT_EQ(features("1,2,3\n", {.features = 2}), 2U) << "one column more than the model has features";
    EXPECT_EQ(features("1,2,3\n", {.features = 3}), 3U);
    EXPECT_EQ(features("a,b,c\n1,2,x\n", {.drop_columns = {"c"}}), 2U);
}

TEST(Csv, MissingValuesAreDroppedOrMarked) {
    const auto* text = "a,b,y\n1,2,u\n,3,u\n4,NA,u\n5,?,v\n6,n/a,v\n7,nan,v\n8,null,v\n9,10,\n11,12,v\n";
    EXPECT_EQ(values_of(read_csv_table(text, {.missing = Missing::drop})), (Floats{1, 2, 11, 12}));
    EXPECT_THAT(csv_fault(text), HasSubstr("line 3: column 1 ('a'): the value is missing"));
    EXPECT_THAT(csv_fault(text, {.missing = Missing::mean}),
                HasSubstr("line 9: column 3 ('y'): an empty field"));
    const auto marked = read_csv_table("a,b,y\n1,2,u\n,3,u\n", {.missing = Missing::mean}).x;
    EXPECT_TRUE(std::isnan(marked(1, 0)));
    EXPECT_EQ(marked(1, 1), 3.0F);
    EXPECT_THAT(csv_fault("a,y\nNA,u\n?,v\n", {.missing = Missing::drop}),
                HasSubstr("every row has a missing value"));
    EXPECT_THAT(csv_fault("a,y\ninf,u\n", {.missing = Missing::drop}),
                HasSubstr("'inf' is not a finite number"));
}

class Notes : public LogSink {
public:
    void note(std::string_view text) override { texts.emplace_back(text); }
    Texts texts;
};

TEST(Csv, SaysWhatTheFileDecided) {
    const auto notes = [](std::string_view text, const ReadOptions& options) {
        Notes log;
        const Exec exec{.log = &log};
        auto all = options;
        all.format = Format::csv;
        read_table(ByteStream("x.csv", text, {}), all, exec);
        return log.texts;
    };
    EXPECT_EQ(
        notes("a,b,y\n1,2,u\n", {}),
        Texts{"x.csv: the first line is a header (none of its feature fields is a number); the label is "
              "column 3 ('y')"});
    EXPECT_EQ(notes("1,2\n3,4\n", {}),
              Texts{"x.csv: the first line is a row (its feature fields are numbers); no label; 2 features"});
    EXPECT_EQ(notes("1,2\n3,4\n", {.label_column = "none", .header = Header::no}), Texts{});
    EXPECT_EQ(notes("1,2\n3,\n", {.label_column = "none", .header = Header::no, .missing = Missing::drop}),
              Texts{"x.csv: 1 of 2 rows dropped: they have missing values"});
}

TEST(Csv, RefusesFilesWithoutRows) {
    EXPECT_EQ(csv_fault(""), "bad_data: memory: has no rows");
    EXPECT_EQ(csv_fault("\n \n"), "bad_data: memory: has no rows");
    EXPECT_EQ(csv_fault("a,b\n"), "bad_data: memory: holds a header but no rows");
    EXPECT_THAT(csv_fault("1\n2\n"), HasSubstr("no column left for features; the file has 1 column"));
}

TEST(Csv, RefusesTheWrongNumberOfFeatures) {
    EXPECT_EQ(csv_fault("1,2,a\n", {.features = 3}), "bad_data: memory: 2 feature columns, expected 3");
    EXPECT_THAT(csv_fault("1\n", {.delimiter = '"'}), HasSubstr("bad_config: delimiter"));
}

}  // namespace
}  // namespace imka

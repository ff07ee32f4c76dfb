// The public data sets, with the row counts and class counts stated on their pages and in their papers.
#include <gtest/gtest.h>

#include <map>

#include "imka/data/table.hpp"
#include "support/data_dir.hpp"

namespace imka {
namespace {

using Balance = std::map<std::string, std::size_t>;

Balance balance_of(const Table& table) {
    Balance balance;
    for (const auto& label : table.labels) ++balance[label];
    return balance;
}

void expect_table(const Table& table, std::size_t rows, std::size_t cols, const Balance& balance) {
    EXPECT_EQ(table.x.rows(), rows);
    EXPECT_EQ(table.x.cols(), cols);
    EXPECT_EQ(balance_of(table), balance);
}

TEST(RealData, CodRna) {
    IMKA_NEED_REAL_DATA(dir);
    const auto train = read_table(dir / "cod-rna/cod-rna.xz", {.format = Format::libsvm});
    expect_table(train, 59'535, 8, {{"1", 19'845}, {"-1", 39'690}});
    EXPECT_EQ(train.x(0, 0), -766);
    EXPECT_EQ(train.x(0, 7), 0.234375F);
    expect_table(read_table(dir / "cod-rna/cod-rna.t.xz", {.features = 8}), 271'617, 8,
                 {{"1", 90'539}, {"-1", 181'078}});
}

TEST(RealData, Ijcnn1) {
    IMKA_NEED_REAL_DATA(dir);
    const auto train = read_table(dir / "ijcnn1/ijcnn1.tr_val.libsvm.xz", {});
    expect_table(train, 49'990, 22, {{"1", 4'853}, {"-1", 45'137}});
    EXPECT_EQ(train.x(0, 5), 1);
    EXPECT_EQ(train.x(0, 21), -0.00081F);
    expect_table(read_table(dir / "ijcnn1/ijcnn1.t.libsvm.xz", {.features = 22}), 91'701, 22,
                 {{"1", 8'712}, {"-1", 82'989}});
}

TEST(RealData, Eeg) {
    IMKA_NEED_REAL_DATA(dir);
    const auto table = read_table(dir / "eeg/eeg_eye_state.arff.xz", {.label_column = "last"});
    expect_table(table, 14'980, 14, {{"0", 8'257}, {"1", 6'723}});
    EXPECT_EQ(table.x(0, 0), 4329.23F);
    const auto reader = open_rows(dir / "eeg/eeg_eye_state.arff.xz", {.label_column = "last"});
    EXPECT_EQ(reader->feature_names().front(), "AF3");
    EXPECT_EQ(reader->feature_names().back(), "AF4");
}

TEST(RealData, Letter) {
    IMKA_NEED_REAL_DATA(dir);
    const auto whole = read_table(dir / "letter/letter-recognition.data.xz", {.label_column = "first"});
    EXPECT_EQ(whole.x.rows(), 20'000U);
    EXPECT_EQ(whole.x.cols(), 16U);
    EXPECT_EQ(balance_of(whole).size(), 26U);
    const ReadOptions binary{.label_column = "1", .drop_columns = {"2"}};
    const auto train = read_table(dir / "letter/letter_binary_train.csv.xz", binary);
    expect_table(train, 12'000, 16, {{"1", 5'937}, {"-1", 6'063}});
    expect_table(read_table(dir / "letter/letter_binary_test.csv.xz", binary), 6'000, 16,
                 {{"1", 2'995}, {"-1", 3'005}});
    const auto letters =
        read_table(dir / "letter/letter_binary_train.csv.xz", {.label_column = "2", .drop_columns = {"1"}});
    EXPECT_EQ(balance_of(letters).size(), 26U);
    EXPECT_TRUE(letters.x == train.x);
}

TEST(RealData, Magic) {
    IMKA_NEED_REAL_DATA(dir);
    const auto table = read_table(dir / "magic04/magic04.data.xz", {});
    expect_table(table, 19'020, 10, {{"g", 12'332}, {"h", 6'688}});
    EXPECT_EQ(table.x(0, 0), 28.7967F);
}

TEST(RealData, Skin) {
    IMKA_NEED_REAL_DATA(dir);
    const auto table =
        read_table(dir / "skin/Skin_NonSkin.txt.xz", {.format = Format::csv, .label_column = "last"});
    expect_table(table, 245'057, 3, {{"1", 50'859}, {"2", 194'198}});
    EXPECT_EQ(table.x(0, 2), 123);
}

}  // namespace
}  // namespace imka

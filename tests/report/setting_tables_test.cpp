// Settings next to published ones: differences, reasons, settings that the paper does not have.
#include "imka/report/setting_tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "imka/report/report.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka::report {
namespace {

using testing::HasSubstr;

const SettingCell& cell(const SettingTable& table, const std::string& row, const std::string& task) {
    const auto t = std::ranges::find(table.tasks, task) - table.tasks.begin();
    return std::ranges::find(table.rows, row, &SettingRow::name)->cells.at(static_cast<std::size_t>(t));
}

TEST(SettingTables, EveryDifferenceOfTheRecipesHasAReason) {
    const auto table = hyper_parameter_table();
    std::size_t differences = 0;
    for (const auto& row : table.rows) {
        for (const auto& c : row.cells) {
            differences += c.differs ? 1 : 0;
            EXPECT_EQ(c.differs, !c.reason.empty()) << row.name << " " << c.imka << " " << c.published;
        }
    }
    EXPECT_GT(differences, 10U);
    EXPECT_EQ(cell(table, "learning rate", "imdb").imka, "0.0006");
    EXPECT_FALSE(cell(table, "learning rate", "imdb").differs) << "6e-4 is the same number";
    EXPECT_TRUE(cell(table, "activation", "cifar10").differs);
    EXPECT_THAT(cell(table, "steps", "imdb").reason, HasSubstr("20,000"));
    EXPECT_EQ(cell(table, "classifier inputs", "retrieval").imka, "128");
    EXPECT_EQ(cell(table, "sampled features D", "listops").imka, "256");
    EXPECT_EQ(cell(table, "pixel_mean", "listops").imka, "-");
    // A setting that the paper does not have.
    EXPECT_EQ(cell(table, "tied", "listops").imka, "true");
    EXPECT_EQ(cell(table, "tied", "listops").published, "-");
    EXPECT_FALSE(cell(table, "tied", "listops").differs);
}

TEST(SettingTables, CompareOnlyWhatIsThere) {
    const auto published = parse_settings(
        "tables:\n  - name: n\n    title: t\n    source: s\n    tasks: [a, b]\n"
        "    rows: [{setting: x, values: [1, 2]}]\n"
        "    reasons: [{setting: x, tasks: [b], text: because}]\n");
    const auto table = compare_settings(published.at(0), {{"b", {{"x", "2.5"}, {"y", "3"}}}});
    ASSERT_EQ(table.rows.size(), 2U);
    EXPECT_FALSE(table.rows[0].cells[0].differs) << "a is not there";
    EXPECT_EQ(table.rows[0].cells[0].imka, "-");
    EXPECT_TRUE(table.rows[0].cells[1].differs);
    EXPECT_EQ(table.rows[0].cells[1].reason, "because");
    EXPECT_EQ(table.rows[1].name, "y");
    EXPECT_THAT(error_of([] {
                    (void)parse_settings(
                        "tables:\n  - {name: n, title: t, source: s, tasks: [a, b], rows: [{setting: x, "
                        "values: [1]}], reasons: [{setting: x, text: r}]}\n");
                }),
                HasSubstr("expected 2 values"));
}

TEST(SettingTables, LeaveOutTasksWithoutFiles) {
    const TempDir dir;
    const auto table = data_table(dir.path(), {});
    EXPECT_EQ(cell(table, "training examples", "pathfinder32").imka, "160000");
    EXPECT_FALSE(cell(table, "test examples", "listops").differs);
    EXPECT_THAT(cell(table, "split", "listops").reason, HasSubstr("generated"));
    EXPECT_EQ(cell(table, "median tokens of a document", "pathfinder32").imka, "1024");
    EXPECT_EQ(cell(table, "test examples", "imdb").imka, "-");
    EXPECT_FALSE(cell(table, "test examples", "imdb").differs);
    ASSERT_EQ(table.notes.size(), 3U);
    EXPECT_THAT(table.notes[0], HasSubstr("imdb: left out: "));
}

TEST(SettingTables, AreSectionsOfTheReport) {
    const auto& published = published_settings().at(1);
    EXPECT_EQ(published.name, "data");
    const auto table = compare_settings(published, {{"cifar10", {{"train", "45000"}}}});
    EXPECT_FALSE(cell(table, "training examples", "cifar10").differs);
    EXPECT_TRUE(cell(table, "test examples", "cifar10").differs) << "published, and not ours";
    auto report = make_report({}, "");
    add_settings(report, table);
    EXPECT_EQ(report.title, "Tasks of Long Range Arena");
    const auto document = nlohmann::json::parse(report_json(report));
    EXPECT_EQ(document.at("experiments").at(0).at("settings").at(0).at("rows").at(0).at("name"),
              "most tokens of an example");
}

}  // namespace
}  // namespace imka::report

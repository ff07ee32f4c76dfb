// Records as CSV: quoting, names of columns, one row per run.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "report/records.hpp"

namespace {

// Parses RFC 4180 text; shares no code with the writer.
std::vector<std::vector<std::string>> parse(const std::string& text) {
    std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
    bool inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        auto& field = rows.back().back();
        if (inside) {
            if (c != '"') {
                field += c;
            } else if (i + 1 < text.size() && text[i + 1] == '"') {
                field += text[++i];
            } else {
                inside = false;
            }
        } else if (c == '"') {
            inside = true;
        } else if (c == ',') {
            rows.back().emplace_back();
        } else if (c == '\n') {
            rows.emplace_back(1);
        } else {
            field += c;
        }
    }
    rows.pop_back();
    return rows;
}

TEST(RecordsCsv, KeepsEveryFieldAndHasUniqueColumns) {
    auto odd = make_record({.experiment = "a \"b\", c\nd", .dataset = "x,y", .seed = 3});
    auto failed = make_record({.seed = 4});
    failed.results.clear();
    failed.error = "row 2, column \"z\"";
    const auto rows = parse(imka::to_csv({odd, failed}));
    ASSERT_EQ(rows.size(), 3U);
    const std::set<std::string> names(rows[0].begin(), rows[0].end());
    EXPECT_EQ(names.size(), rows[0].size());
    EXPECT_TRUE(names.contains("log_ratio") && names.contains("result_log_ratio"));
    const auto value = [&](std::size_t row, const std::string& name) {
        for (std::size_t c = 0; c < rows[0].size(); ++c) {
            if (rows[0][c] == name) return rows[row].at(c);
        }
        return std::string("no such column");
    };
    EXPECT_EQ(value(1, "experiment"), "a \"b\", c\nd");
    EXPECT_EQ(value(1, "dataset"), "x,y");
    EXPECT_EQ(value(1, "accuracy"), "0.9");
    EXPECT_EQ(value(2, "accuracy"), "");
    EXPECT_EQ(value(2, "error"), "row 2, column \"z\"");
    EXPECT_EQ(value(2, "seed"), "4");
}

}  // namespace

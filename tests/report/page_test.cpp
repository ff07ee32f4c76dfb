// The page: escaping of malicious text, warnings, size, content of every figure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <utility>

#include "imka/report/html_page.hpp"
#include "imka/report/report.hpp"
#include "report/records.hpp"

namespace {

using namespace imka::report;
using imka::RecordProblem;
using imka::RecordSet;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kLibrary = "/* figure library */ var Chart = '</script>' + '<!--';";
const std::string kHostile = "<script>alert('x')</script>\"'&<!--\xE2\x80\xA8]]>`\\\n{}${x}";

std::size_t times(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

std::string page_of(const Report& report) {
    return render_page(report_json(report), kLibrary);
}

nlohmann::json document_of(const Report& report) {
    return nlohmann::json::parse(report_json(report));
}

TEST(Escape, JsonInAScriptKeepsItsMeaning) {
    const nlohmann::json j = {{"text", kHostile}};
    const auto escaped = escape_json_in_script(j.dump());
    EXPECT_THAT(escaped, AllOf(Not(HasSubstr("<")), Not(HasSubstr(">")), Not(HasSubstr("&")),
                               Not(HasSubstr("\xE2\x80\xA8"))));
    EXPECT_EQ(nlohmann::json::parse(escaped), j);
}

TEST(Escape, ScriptsCannotEndTheirElement) {
    EXPECT_EQ(escape_script("a='</script>'"), "a='<\\/script>'");
    EXPECT_EQ(escape_script("a='</SCRIPT >'"), "a='<\\/SCRIPT >'");
    EXPECT_EQ(escape_script("a='<!--'"), "a='<\\!--'");
    EXPECT_EQ(escape_script("a</b/.test(c)<!d"), "a</b/.test(c)<!d") << "operators stay";
}

TEST(Escape, GnuplotTextStaysInItsQuotes) {
    EXPECT_EQ(quote_gnuplot("it's `rm` \n x"), "'it''s  rm    x'");
}

TEST(Escape, SlugsAreFileNames) {
    EXPECT_EQ(slug("../A b/ç:TRAIN.csv"), "a-b-train-csv");
    EXPECT_LE(slug(std::string(500, 'x')).size(), 60U);
}

RecordSet hostile_set() {
    RecordSet set;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        auto r = make_record({.experiment = kHostile,
                              .dataset = kHostile,
                              .kernel = kHostile,
                              .sampler = kHostile,
                              .seed = seed});
        r.imka_version = r.build = r.instruction_set = r.data_sha256 = r.finished = kHostile;
        r.config[kHostile] = kHostile + std::to_string(seed);
        set.records.push_back(r);
    }
    set.records[2].error = kHostile;
    set.records[2].results.clear();
    set.problems.push_back(
        {.kind = RecordProblem::Kind::malformed, .file = kHostile, .line = 3, .what = kHostile});
    return set;
}

TEST(Page, EscapesMaliciousText) {
    const auto report = make_report(hostile_set(), kHostile);
    const auto page = page_of(report);
    EXPECT_EQ(times(page, "<script"), 4U) << "the data, the library, what pages share, our own";
    EXPECT_EQ(times(page, "</script"), 4U);
    // Counts occurrences, so that a failing test does not print whole pages.
    for (const auto* part : {"<script>alert", "alert('x')</", "<!--", "]]>"})
        EXPECT_EQ(times(page, part), 0U) << part;
    const std::string open = R"(<script type="application/json" id="report">)";
    const auto at = page.find(open);
    ASSERT_NE(at, std::string::npos);
    const auto begin = at + open.size();
    const auto data = page.substr(begin, page.find('<', begin) - begin);
    EXPECT_TRUE(std::string_view(page).substr(begin + data.size()).starts_with("</script>"));
    const auto document = nlohmann::json::parse(data);
    EXPECT_EQ(document, document_of(report));
    EXPECT_THAT(
        document.at("experiments").at(0).at("figures").at(0).at("plot").at("title").get<std::string>(),
        HasSubstr(kHostile));
    for (const auto& plot : all_plots(report))
        EXPECT_TRUE(std::regex_match(plot.id, std::regex("[a-z0-9-]+")));
    const auto script = gnuplot_script(all_plots(report), "figures");
    EXPECT_EQ(times(script, "`"), 0U);
    EXPECT_EQ(times(script, "\n{}"), 0U) << "a line break inside a string would start a command";
}

TEST(Page, ReplacesBytesThatAreNotText) {
    RecordSet set;
    set.records = {make_record({})};
    set.records[0].config["dataset"] = "a\xFF\xC0\xBC<";
    const auto page = page_of(make_report(set, ""));
    EXPECT_EQ(times(page, "\xFF"), 0U);
    EXPECT_EQ(times(page, "\xC0"), 0U) << "an overlong '<'";
    EXPECT_GT(times(page, "a\xEF\xBF\xBD"), 0U);
}

TEST(Page, InsertsTextThatLooksLikeAMarker) {
    const auto page = render_page(R"({"title":"@page.js@ @chart.js@"})", kLibrary);
    EXPECT_EQ(times(page, R"({"title":"@page.js@ @chart.js@"})"), 1U);
    EXPECT_EQ(times(page, "figure library"), 1U);
}

TEST(Page, TwoDataSetsWithSimilarNamesHaveDifferentAnchors) {
    RecordSet set;
    set.records = {make_record({.dataset = "a.csv"}), make_record({.dataset = "a_csv"})};
    const auto plots = all_plots(make_report(set, ""));
    ASSERT_EQ(plots.size(), 4U);
    std::set<std::string> ids;
    for (const auto& plot : plots) ids.insert(plot.id);
    EXPECT_EQ(ids.size(), 4U);
}

TEST(Page, ShowsEveryKindOfWarning) {
    RecordSet set;
    set.records = ridge_grid("ridge_measured", "measured", 2);
    set.records[0].error = "the system is singular";
    set.records[0].results.clear();
    set.records[10].imka_version = "0.0.9";
    set.records[11].instruction_set = "SSE4";
    set.records[12].data_sha256 = "d2";
    using Kind = RecordProblem::Kind;
    for (const auto kind : {Kind::torn, Kind::other_schema, Kind::malformed, Kind::disagrees})
        set.problems.push_back({.kind = kind, .file = "a.jsonl", .line = 4, .what = "wrong"});
    const auto report = make_report(set, "");
    std::multiset<std::string> names;
    for (const auto& flag : report.flags) names.insert(flag.name);
    EXPECT_EQ(names, (std::multiset<std::string>{"disagrees", "failed", "malformed", "mixed", "mixed",
                                                 "mixed", "other_schema", "torn", "uneven"}));
    const auto page = page_of(report);
    for (const auto* text : {"the system is singular", "a.jsonl: line 4: wrong", "0.0.9 (1 runs)",
                             "SSE4 (1 runs)", "d2 (1 runs)", "1 run failed", "1 to 2 seeds per point"}) {
        EXPECT_GT(times(page, text), 0U) << text;
    }
    EXPECT_GT(times(page, "imka ridge --dataset cod-rna"), 0U) << "imka ridge --dataset cod-rna";
}

TEST(Page, SaysSoWhenAllIsWell) {
    RecordSet set;
    set.records = ridge_grid("mine", "default", 2);
    EXPECT_TRUE(make_report(set, "").flags.empty());
    EXPECT_TRUE(document_of(make_report(set, "")).at("flags").empty());
}

TEST(Page, IsTheSameForRecordsInAnyOrder) {
    RecordSet set;
    set.records = ridge_grid("ridge_measured", "measured", 3);
    const auto page = page_of(make_report(set, ""));
    std::ranges::reverse(set.records);
    EXPECT_TRUE(page == page_of(make_report(set, "")));
}

TEST(Page, AveragesOfTheMainFigureAppearOnlyWithTheirExperiments) {
    RecordSet set;
    for (const auto* experiment : {"liu", "ridge_measured", "mine"}) {
        for (int r = 1; r <= 2; ++r) {
            set.records.push_back(make_record({.experiment = experiment,
                                               .dataset = "ijcnn1",
                                               .protocol = "measured",
                                               .log_ratio = static_cast<double>(r)}));
        }
    }
    const auto report = make_report(set, "");
    ASSERT_EQ(report.sections.size(), 3U);
    EXPECT_TRUE(report.sections[0].accuracy.empty()) << "liu has one data set";
    EXPECT_FALSE(report.sections[0].statements.empty());
    EXPECT_TRUE(report.sections[1].statements.empty()) << "a user's own experiment";
    EXPECT_FALSE(report.sections[2].accuracy.empty());
    EXPECT_FALSE(report.sections[2].normalised.empty());
}

TEST(Page, WithoutRecordsIsStillAPage) {
    const auto page = page_of(make_report({}, ""));
    EXPECT_GT(times(page, "No results"), 0U);
    EXPECT_EQ(times(page, "</html>"), 1U);
}

TEST(Page, EveryFigureHasItsTextAndCommand) {
    RecordSet set;
    set.records = ridge_grid("ridge_measured", "measured", 2);
    const auto report = make_report(set, "");
    const auto page = page_of(report);
    ASSERT_EQ(report.sections.size(), 1U);
    EXPECT_EQ(report.sections[0].figures.size(), 24U);
    const auto section = document_of(report).at("experiments").at(0);
    ASSERT_EQ(section.at("figures").size(), 24U);
    EXPECT_EQ(section.at("normalised_plots").size(), 2U) << "two of the paper's averages";
    for (const auto& figure : section.at("figures")) {
        EXPECT_THAT(figure.at("command").get<std::string>(),
                    HasSubstr("imka sweep ridge_measured --set dataset="));
        EXPECT_THAT(figure.at("plot").at("alt").get<std::string>(), HasSubstr("Line chart of"));
        EXPECT_EQ(figure.at("curves").size(), 3U);
    }
    for (const auto* link : {"http://", "https://", "src=", "@import", "url("}) {
        EXPECT_EQ(times(page, link), 0U) << "the page must not fetch anything: " << link;
    }
}

TEST(Page, HasEveryNoteThatItsScriptShows) {
    const auto page = page_of(make_report({}, ""));
    const std::regex note(R"(report\.notes\.([a-z0-9_]+))");
    std::set<std::string> shown;
    for (auto i = std::sregex_iterator(page.begin(), page.end(), note); i != std::sregex_iterator(); ++i)
        shown.insert((*i)[1]);
    std::set<std::string> known;
    for (const auto& [name, text] : paper().notes) known.insert(name);
    EXPECT_EQ(shown, known);
}

TEST(Page, Of3600RecordsStaysSmall) {
    RecordSet set;
    set.records = ridge_grid("ridge_fp32", "default", 10);
    auto more = ridge_grid("ridge_measured", "measured", 10);
    std::ranges::move(more, std::back_inserter(set.records));
    ASSERT_EQ(set.records.size(), 3600U);
    const auto start = std::chrono::steady_clock::now();
    const auto page = page_of(make_report(std::move(set), ""));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    // The time is only printed: a busy machine must not fail the test.
    std::cout << "3,600 records: " << page.size() / 1000 << " kB without the figure library, "
              << seconds.count() << " s\n";
    EXPECT_LT(page.size(), 4'500'000U) << "with a library of 200 kB it must stay under 5 MB";
}

}  // namespace

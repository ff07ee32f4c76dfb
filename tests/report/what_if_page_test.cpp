// The page that compares chips: its document, and that it contains what it needs.
#include "imka/report/what_if_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace imka::report {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

WhatIfPage page_of() {
    WhatIfPoint good{.constants = {{"core.rows", "64"}},
                     .cores = 3,
                     .chips = 1,
                     .latency_seconds = 2e-6,
                     .joules = CostValue{3e-6, 2e-6, 5e-6},
                     .area_mm2 = CostValue{144, 100, 200},
                     .error = summarize({0.1, 0.2}),
                     .best = true};
    WhatIfPoint unknown{
        .constants = {{"core.rows", "</script>\xff"}}, .latency_seconds = 1, .error = summarize({0.5})};
    return {.name = "net.onnx",
            .chip = "hermes",
            .command = "imka deploy net.onnx --what-if core.rows=64,256",
            .axes = {{"core.rows", {"64", "</script>\xff"}}},
            .points = {good, unknown},
            .assumptions = {{"tier_area", 0.05, 0, 0.25, "of the cores", "assumption"}}};
}

TEST(WhatIfPage, DocumentHasEveryPoint) {
    const auto j = json::parse(what_if_json(page_of()));
    EXPECT_EQ(j.at("schema"), "imka-what-if-1");
    EXPECT_EQ(j.at("axes")[0].at("key"), "core.rows");
    EXPECT_EQ(j.at("seeds"), 2);
    const auto& point = j.at("points")[0];
    EXPECT_TRUE(point.at("best"));
    EXPECT_EQ(point.at("values")[0], "64");
    EXPECT_EQ(point.at("energy_joules").at("high"), 5e-6);
    EXPECT_EQ(point.at("area_mm2").at("low"), 100);
    EXPECT_NEAR(point.at("error").at("mean"), 0.15, 1e-12);
    EXPECT_TRUE(j.at("points")[1].at("energy_joules").is_null());
    EXPECT_TRUE(j.at("points")[1].at("error").at("ci95").is_null()) << "one chip has no interval";
    EXPECT_EQ(j.at("assumptions")[0].at("source"), "assumption");
}

TEST(WhatIfPage, IsOneFileAndSafe) {
    const auto html = render_what_if_page(what_if_json(page_of()), "var Chart; // </script> @json@");
    EXPECT_THAT(html, HasSubstr("var Chart"));
    EXPECT_THAT(html, HasSubstr("\\u003c/script\\u003e\xEF\xBF\xBD"));
    EXPECT_THAT(html, Not(HasSubstr("https://")));
    for (const auto* marker : {"@css@", "@what_if.css@", "@shared.js@", "@what_if.js@"})
        EXPECT_THAT(html, Not(HasSubstr(marker))) << marker;
}

}  // namespace
}  // namespace imka::report

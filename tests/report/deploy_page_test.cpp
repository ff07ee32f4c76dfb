// The page of a deployed model: its document, its sums, its size.
#include "imka/report/deploy_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "imka/deploy/layer_cost.hpp"

namespace imka::report {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

DeployPage page_of(const MatrixList& list, const ChipSpec& spec) {
    DeployPage page{.name = "network", .chip = spec.name, .command = "imka deploy"};
    page.result = map_matrices(list, grid_of(spec));
    page.pipeline = pipeline_of(list);
    page.schedule = make_schedule(page.pipeline, page.result.mapping, spec, cost_data());
    page.cost = model_cost(page.pipeline, page.result.mapping, spec, cost_data());
    page.layers = layer_costs(page.pipeline, page.result.mapping, spec, cost_data());
    return page;
}

// Two matrices of 2 and 1 tiles; the second is used twice.
DeployPage small_page() {
    return page_of(parse_shapes("300x20@8 20x10*2@8"), chip_preset("hermes"));
}

double sum_of(const json& list, const json::json_pointer& key) {
    double sum = 0.0;
    for (const auto& one : list) sum += one.at(key).get<double>();
    return sum;
}

TEST(DeployPage, DocumentHasEveryLayerRegionAndStep) {
    const auto page = small_page();
    const auto j = json::parse(deploy_json(page));
    EXPECT_EQ(j.at("schema"), kDeploySchema);
    ASSERT_EQ(j.at("layers").size(), 2U) << "no digital steps before the first matrix";
    const auto& first = j["layers"][0];
    EXPECT_EQ(first.at("name"), "m0");
    EXPECT_EQ(first.at("inputs"), 300);
    EXPECT_EQ(first.at("tiles"), 2);
    EXPECT_EQ(first.at("vectors"), 8);
    EXPECT_EQ(j["layers"][1].at("uses"), 2);
    EXPECT_EQ(j.at("steps").size(), 3U);
    EXPECT_EQ(j["steps"][2].at("layers"), json::array({1}));
    ASSERT_EQ(j.at("regions").size(), page.result.mapping.regions.size());
    const auto& r = page.result.mapping.regions[1];
    EXPECT_EQ(j["regions"][1], json({r.matrix, r.replica, r.core, r.row, r.col, r.tile.first_row, r.tile.rows,
                                     r.tile.first_col, r.tile.cols}));
    EXPECT_EQ(j.at("plan").at("cores"), page.result.cores);
    EXPECT_FALSE(j.contains("error"));
}

TEST(DeployPage, LayersAddUpToTheTotals) {
    for (const auto* name : {"ad", "resnet32-cifar"}) {
        const auto page = page_of(known_network(name).matrices, chip_preset("hermes"));
        const auto j = json::parse(deploy_json(page));
        const auto total = j.at("energy").at("joules").get<double>();
        EXPECT_GT(total, 0.0);
        EXPECT_NEAR(sum_of(j["layers"], "/joules"_json_pointer), total, 1e-12 * total);
        EXPECT_NEAR(sum_of(j["layers"], "/digital_joules/high"_json_pointer),
                    j["energy"]["digital_joules"]["high"].get<double>(), 1e-12 * total);
        EXPECT_EQ(sum_of(j["layers"], "/core_products"_json_pointer), page.cost.core_products);
        EXPECT_EQ(sum_of(j["layers"], "/operations"_json_pointer), page.cost.operations);
    }
}

TEST(DeployPage, TimeLineEndsWithTheLatencyAndKeepsAllRows) {
    const auto page = small_page();
    const auto j = json::parse(deploy_json(page));
    const auto& timeline = j.at("timeline");
    EXPECT_EQ(timeline.at("window_seconds"), 0.0);
    EXPECT_EQ(timeline.at("lanes").size(), page.schedule.uses.size());
    double end = 0.0;
    std::map<std::pair<int, int>, int> rows;  // of a step on a lane
    for (const auto& span : timeline.at("spans")) {
        end = std::max(end, span[7].get<double>());
        rows[{span[0], span[1]}] += span[5].get<int>();
    }
    EXPECT_NEAR(end, 1e9 * page.schedule.makespan_seconds, 1e-3);
    for (const auto& [key, count] : rows) EXPECT_EQ(count, 8);
}

TEST(DeployPage, UnknownPowerIsNull) {
    auto spec = chip_preset("ideal");
    const auto j = json::parse(deploy_json(page_of(parse_shapes("30x20"), spec)));
    EXPECT_TRUE(j.at("energy").at("joules").is_null());
    EXPECT_TRUE(j["layers"][0].at("core_joules").is_null());
    EXPECT_GT(j["layers"][0].at("link_joules").at("value").get<double>(), 0.0);
}

TEST(DeployPage, DigitalStepsBeforeTheFirstMatrixAreALayer) {
    const auto spec = chip_preset("hermes");
    auto page = small_page();
    PipelineStep scaling{.name = "scale", .op = "Mul", .rows = 8, .work = {.multiplications = 100.0}};
    for (auto& step : page.pipeline.steps) {
        for (auto& input : step.inputs) ++input.step;
    }
    page.pipeline.steps.insert(page.pipeline.steps.begin(), scaling);
    page.pipeline.steps[1].inputs.push_back({0});
    page.pipeline.chains = chains_of(page.pipeline.steps);
    page.schedule = make_schedule(page.pipeline, page.result.mapping, spec, cost_data());
    page.layers = layer_costs(page.pipeline, page.result.mapping, spec, cost_data());
    const auto j = json::parse(deploy_json(page));
    ASSERT_EQ(j.at("layers").size(), 3U);
    EXPECT_FALSE(j["layers"][2].contains("inputs"));
    EXPECT_GT(j["layers"][2].at("digital_joules").at("value").get<double>(), 0.0);
    EXPECT_EQ(j["layers"][2].at("begin_seconds"), 0.0);
    EXPECT_EQ(j["steps"][0].at("layers"), json::array({2}));
}

TEST(DeployPage, ErrorsAreThereIfTheyWereMeasured) {
    auto page = small_page();
    ExplainedError explained;
    explained.error.total = summarize({0.04, 0.06});
    for (const auto* name : {"m0", "m1"})
        explained.error.matrices.push_back({.name = name,
                                            .own = summarize({0.1, 0.2}),
                                            .accumulated = summarize({0.3}),
                                            .alone = summarize({0.01, 0.02}),
                                            .added = summarize({0.02, 0.03})});
    page.error = explained;
    const auto j = json::parse(deploy_json(page));
    EXPECT_EQ(j.at("error").at("chips"), 2);
    EXPECT_DOUBLE_EQ(j["error"].at("squared_error").at("mean"), 0.05);
    EXPECT_DOUBLE_EQ(j["layers"][1].at("error").at("own").at("mean"), 0.15);
    EXPECT_TRUE(j["layers"][1]["error"].at("accumulated").at("ci95").is_null())
        << "one value has no interval";
    EXPECT_DOUBLE_EQ(sum_of(j["layers"], "/error/added_squared/mean"_json_pointer), 0.05);
}

TEST(DeployPage, ManySpansBecomeFewer) {
    const auto list = known_network("resnet18-in").matrices;
    const auto page = page_of(list, chip_preset("hermes"));
    const auto all = drawn_spans(page.schedule, page.schedule.spans.size());
    EXPECT_EQ(all.window_seconds, 0.0);
    const auto few = drawn_spans(page.schedule, 1000);
    EXPECT_GT(all.spans.size(), 1000U);
    EXPECT_LE(few.spans.size(), 1000U);
    EXPECT_GT(few.window_seconds, 0.0);
    double end = 0.0;
    for (const auto& span : few.spans) end = std::max(end, span.end);
    EXPECT_EQ(end, page.schedule.makespan_seconds);
    EXPECT_LT(render_deploy_page(deploy_json(page)).size(), 3'000'000U);
}

// A window shows the step with the most time.
TEST(DeployPage, FusedSpansAreOfTheLongestStep) {
    Schedule schedule{.makespan_seconds = 8192.0};
    const auto span = [](std::uint32_t step, double begin, double end) {
        return Span{.step = step, .matrix = step, .rows = 2, .begin = begin, .end = end};
    };
    schedule.spans = {span(0, 0.0, 0.1), span(1, 0.1, 0.4), span(0, 0.4, 0.5), span(1, 0.5, 0.6),
                      span(0, 3.0, 8192.0)};
    const auto drawn = drawn_spans(schedule, 2);
    ASSERT_EQ(drawn.spans.size(), 2U);
    EXPECT_EQ(drawn.window_seconds, 1.0);
    EXPECT_EQ(drawn.spans[0].step, 1U);
    EXPECT_EQ(drawn.spans[0].rows, 4U);
    EXPECT_EQ(drawn.spans[0].begin, 0.0);
    EXPECT_EQ(drawn.spans[0].end, 0.6);
    EXPECT_EQ(drawn.spans[1].begin, 3.0);
}

TEST(DeployPage, TextFromModelsStaysText) {
    auto page = small_page();
    page.name = "</script><img src=x>";
    page.result.mapping.matrices[0].shape.name = "<!-- @deploy.js@ \xff";
    const auto html = render_deploy_page(deploy_json(page));
    EXPECT_THAT(html, AllOf(Not(HasSubstr("</script><img")), Not(HasSubstr("<!-- @")),
                            HasSubstr("\\u003c!-- @deploy.js@ \xEF\xBF\xBD")));
    EXPECT_THAT(html, AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
}

}  // namespace
}  // namespace imka::report

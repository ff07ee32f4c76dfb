// Pictures and traces of schedules.
#include "imka/deploy/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "deploy/schedules.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/map.hpp"

namespace imka {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// A product, digital work, and a product that waits for it; 8 ticks.
struct Example {
    Pipeline pipeline;
    Schedule schedule;
};
Example example(const ScheduleOptions& options = {}) {
    PipelineStep relu{.name = "relu", .op = "Relu", .inputs = {{0, Reads::all}}, .rows = 2};
    relu.work.additions = 2 * kProduct * parameter(cost_data().parameters, "digital_rate").value;
    Example e;
    e.pipeline.steps = {step_of(0, 4), relu, step_of(1, 2, {{1, Reads::all}})};
    e.pipeline.steps[0].name = "a<b>";
    e.pipeline.chains = chains_of(e.pipeline.steps);
    e.schedule = make_schedule(e.pipeline, mapping_at({{{0}}, {{70}}}), exact_chip(), cost_data(), options);
    e.schedule.grid.chips = 2;
    return e;
}

TEST(Timeline, AsTextHasALinePerResource) {
    const auto e = example();
    EXPECT_EQ(timeline_text(e.schedule, e.pipeline, 16),
              " chip 0, core 0 AAAAAAAA........  50 %\n"
              " chip 1, core 6 ............BBBB  25 %\n"
              "   digital unit ........++++....  25 %\n"
              "                0       7.629 us\n"
              "                A a<b>  B s1\n");
}

TEST(Timeline, AsSvgHasTheColoursOfTheFloorPlan) {
    const auto e = example();
    const auto svg = timeline_svg(e.schedule, e.pipeline, "net & chip");
    EXPECT_THAT(svg, HasSubstr(matrix_colour(0)));
    EXPECT_THAT(svg, HasSubstr(matrix_colour(1)));
    EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;"));
    EXPECT_THAT(svg, HasSubstr("net &amp; chip"));
    EXPECT_THAT(svg, HasSubstr("time, us"));
    EXPECT_THAT(svg, HasSubstr("M120 58h500v13h-500z"));  // the first half of core 0
    EXPECT_THAT(svg, Not(HasSubstr("fill-opacity")));
    EXPECT_THAT(timeline_svg(example({.inferences = 2}).schedule, e.pipeline, ""), HasSubstr("fill-opacity"));
}

TEST(Timeline, AsSvgStaysSmall) {
    const auto list = known_network("resnet50-in").matrices;
    const auto spec = chip_preset("hermes");
    const auto mapping = map_matrices(list, grid_of(spec)).mapping;
    const auto pipeline = pipeline_of(list);
    const auto schedule = make_schedule(pipeline, mapping, spec, cost_data(), {.inferences = 8});
    EXPECT_GT(schedule.spans.size(), 10'000U);
    EXPECT_LT(timeline_svg(schedule, pipeline, "").size(), 1'000'000U);
}

// Complete events in order of time, named tracks, and at most one event at a time per track.
TEST(Perfetto, TraceHasOneEventAtATimePerTrack) {
    const auto e = example({.inferences = 3});
    const auto trace = Json::parse(perfetto_json(e.schedule, e.pipeline));
    std::map<std::pair<int, int>, double> ends;
    std::map<std::string, int> names;
    double last = 0.0;
    double rows = 0.0;
    for (const auto& event : trace.at("traceEvents")) {
        const std::pair track(event.at("pid").get<int>(), event.at("tid").get<int>());
        if (event.at("ph") == "M") {
            ++names[event.at("args").at("name").get<std::string>()];
            continue;
        }
        EXPECT_EQ(event.at("ph"), "X");
        const auto begin = event.at("ts").get<double>();
        EXPECT_GE(begin, last);
        EXPECT_GE(begin, ends[track] - 1e-9);
        last = begin;
        ends[track] = begin + event.at("dur").get<double>();
        rows += event.at("args").at("rows").get<double>();
        EXPECT_LT(event.at("args").at("inference").get<int>(), 3);
    }
    EXPECT_EQ(rows, 3.0 * (4 + 2 + 2));
    EXPECT_EQ(ends.size(), 3U);
    for (const auto* name : {"chip 0", "chip 1", "core 0", "core 6", "host", "digital unit"})
        EXPECT_EQ(names[name], 1) << name;
    EXPECT_NEAR(last + 2e6 * kProduct, 1e6 * e.schedule.makespan_seconds, 1e-6);
}

// Spans without a gap between them become one event.
TEST(Perfetto, MergesBlocks) {
    const auto e = example({.most_spans = 1'000'000});
    EXPECT_GT(e.schedule.spans.size(), 6U);
    std::size_t complete = 0;
    const auto trace = Json::parse(perfetto_json(e.schedule, e.pipeline));
    for (const auto& event : trace.at("traceEvents")) complete += event.at("ph") == "X" ? 1 : 0;
    EXPECT_EQ(complete, 3U);
}

TEST(SecondsText, ChoosesTheUnit) {
    EXPECT_EQ(seconds_text(1.25), "1.25 s");
    EXPECT_EQ(seconds_text(0.00125), "1.25 ms");
    EXPECT_EQ(seconds_text(12.5e-6), "12.5 us");
    EXPECT_EQ(seconds_text(133e-9), "133 ns");
    EXPECT_EQ(seconds_text(0.0), "0 ns");
}

}  // namespace
}  // namespace imka

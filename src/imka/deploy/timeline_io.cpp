// Schedules as traces for ui.perfetto.dev.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "imka/deploy/timeline.hpp"

namespace imka {
namespace {

using Json = nlohmann::json;

// Process and thread of a resource.
struct Track {
    std::size_t process = 0;
    std::size_t thread = 0;
};

Track track_of(const Resource& resource, const CoreGrid& grid) {
    if (resource.kind == ResourceKind::core)
        return {resource.core / grid.cores + 1, resource.core % grid.cores + 1};
    return {grid.chips + 1, resource.kind == ResourceKind::digital ? std::size_t{1} : std::size_t{2}};
}

Json name_event(const char* what, const Track& track, const std::string& name) {
    return {{"name", what},
            {"ph", "M"},
            {"pid", track.process},
            {"tid", track.thread},
            {"args", {{"name", name}}}};
}

}  // namespace

std::string perfetto_json(const Schedule& schedule, const Pipeline& pipeline) {
    constexpr double kMicro = 1e6;  // times of the format are in microseconds
    Json events = Json::array();
    std::set<std::size_t> processes;
    for (const auto& use : schedule.uses) {
        const auto track = track_of(use.resource, schedule.grid);
        if (processes.insert(track.process).second)
            events.push_back(name_event(
                "process_name", track,
                track.process <= schedule.grid.chips ? fmt::format("chip {}", track.process - 1) : "host"));
        const auto name = use.resource.kind == ResourceKind::core ? fmt::format("core {}", track.thread - 1)
                                                                  : std::string(to_string(use.resource.kind));
        events.push_back(name_event("thread_name", track, name));
    }
    for (const auto& span : merged_spans(schedule.spans)) {
        const auto track = track_of(span.resource, schedule.grid);
        const auto& step = pipeline.steps[span.step];
        Json args{{"rows", span.rows}, {"first_row", span.first_row}, {"inference", span.inference}};
        if (span.matrix != kNoMatrix) args["copy"] = span.copy;
        events.push_back({{"name", step.name},
                          {"cat", step.op},
                          {"ph", "X"},
                          {"ts", kMicro * span.begin},
                          {"dur", kMicro * (span.end - span.begin)},
                          {"pid", track.process},
                          {"tid", track.thread},
                          {"args", args}});
    }
    return Json{{"displayTimeUnit", "ns"}, {"traceEvents", events}}.dump(-1, ' ', false,
                                                                         Json::error_handler_t::replace);
}

}  // namespace imka

// The page of a deployed model: floor plan, time line, costs and errors of its layers, linked.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/chip/analyse/attribution.hpp"
#include "imka/deploy/map.hpp"
#include "imka/deploy/mapping_cost.hpp"
#include "imka/deploy/model_error.hpp"
#include "imka/deploy/pipeline.hpp"
#include "imka/deploy/schedule.hpp"

namespace imka::report {

struct ExplainedError {
    ModelError error;
    ErrorAttribution causes;
};

struct DeployPage {
    std::string name;                   // of the model
    std::string chip;                   // name of its preset
    std::string command;                // that wrote the page
    std::string explain_command;        // that adds the error; empty: none
    std::vector<std::string> verified;  // what was checked, one sentence each
    MapResult result;
    Pipeline pipeline;
    Schedule schedule;
    MappingCost cost;
    std::vector<MappingCost> layers;  // layer_costs
    std::optional<ExplainedError> error = {};
};

// The spans to draw, at most `most` if possible. Spans are merged; if there are still too many, each resource
// shows only its longest step in each window of time, with longer and longer windows.
struct DrawnSpans {
    std::vector<Span> spans;      // by begin
    double window_seconds = 0.0;  // 0: all are drawn
};
DrawnSpans drawn_spans(const Schedule& schedule, std::size_t most);

// The page as one JSON document (docs/formats.md).
std::string deploy_json(const DeployPage& page);
inline constexpr std::string_view kDeploySchema = "imka-deploy-1";

// One self-contained HTML file that renders the document of deploy_json.
std::string render_deploy_page(std::string_view json);

}  // namespace imka::report

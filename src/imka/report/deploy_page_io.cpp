// The JSON document of a deployed model (docs/formats.md), and the page that contains it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "imka/deploy/error_causes.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/layer_cost.hpp"
#include "imka/report/deploy_page.hpp"
#include "imka/report/html_page.hpp"

namespace imka::embedded {
extern const std::string_view report_css;
extern const std::string_view report_shared_js;
extern const std::string_view deploy_page_html;
extern const std::string_view deploy_page_css;
extern const std::string_view deploy_page_js;
}  // namespace imka::embedded

namespace imka::report {
namespace {

using Json = nlohmann::ordered_json;

// Keeps pages of large models below 3 MB and quick to draw.
constexpr std::size_t kMostSpans = 30'000;

Json cost_json(const CostValue& cost) {
    return {{"value", cost.value}, {"low", cost.low}, {"high", cost.high}};
}

Json mean_json(const Summary& s) {
    return {{"mean", s.mean}, {"ci95", s.n > 1 ? Json(s.half_width) : Json()}};
}

// NaN, which is null in JSON, if the power of the chip is unknown.
double total_joules(const MappingCost& cost) {
    return cost.core_joules.value_or(std::nan("")) + cost.digital_joules.value + cost.link_joules.value;
}

Json energy_json(const MappingCost& cost) {
    return {{"joules", total_joules(cost)},
            {"core_joules", cost.core_joules ? Json(*cost.core_joules) : Json()},
            {"digital_joules", cost_json(cost.digital_joules)},
            {"link_joules", cost_json(cost.link_joules)}};
}

Json plan_json(const MapResult& result) {
    const auto& grid = result.mapping.grid;
    return {{"cores", result.cores},
            {"lower_bound", result.bound.bins},
            {"bound", result.bound.reason},
            {"optimal", result.optimal()},
            {"chips", grid.chips},
            {"chip_cores", grid.cores},
            {"core_rows", grid.rows},
            {"core_columns", grid.cols},
            {"tiles", result.mapping.regions.size()},
            {"utilisation", utilisation(result.mapping)}};
}

Json time_json(const Schedule& schedule) {
    return {{"latency_seconds", schedule.makespan_seconds},
            {"latency_bound_seconds", schedule.bound.seconds},
            {"latency_bound", schedule.bound.reason},
            {"interval_seconds", schedule.interval_seconds}};
}

// First start and last end of every layer.
std::vector<StepWindow> layer_windows(const DeployPage& page,
                                      const std::vector<std::vector<std::uint32_t>>& steps) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<StepWindow> windows(page.layers.size(), {.begin = kNever, .end = 0.0});
    const auto extend = [&](std::uint32_t layer, const Span& span) {
        windows[layer].begin = std::min(windows[layer].begin, span.begin);
        windows[layer].end = std::max(windows[layer].end, span.end);
    };
    for (const auto& span : page.schedule.spans) {
        if (span.matrix != kNoMatrix) extend(span.matrix, span);
        if (span.matrix != kNoMatrix) continue;
        for (const auto layer : steps[span.step]) extend(layer, span);
    }
    return windows;
}

Json layer_json(const MappingCost& cost, const StepWindow& window) {
    auto json = energy_json(cost);
    json["core_products"] = cost.core_products;
    json["operations"] = cost.operations;
    json["product_seconds"] = cost.latency_seconds;
    json["digital_seconds"] = cost_json(cost.digital_seconds);
    json["begin_seconds"] = window.end > 0.0 ? Json(window.begin) : Json();
    json["end_seconds"] = window.end > 0.0 ? Json(window.end) : Json();
    return json;
}

void add_matrix(const Mapping& mapping, std::uint32_t m, Json& json) {
    const auto& matrix = mapping.matrices[m];
    const auto begin = std::ranges::lower_bound(mapping.regions, m, {}, &Region::matrix);
    const auto end = std::ranges::upper_bound(mapping.regions, m, {}, &Region::matrix);
    std::set<std::uint32_t> cores;
    for (auto r = begin; r != end; ++r) cores.insert(r->core);
    json.update({{"name", matrix.shape.name},
                 {"colour", matrix_colour(m)},
                 {"inputs", matrix.shape.inputs},
                 {"outputs", matrix.shape.outputs},
                 {"tiles", end - begin},
                 {"copies", matrix.replicas},
                 {"uses", matrix.shape.calls},
                 {"vectors", matrix.shape.vectors},
                 {"cores", cores}});
}

void add_error(const MatrixError& error, Json& json) {
    json["error"] = {{"own", mean_json(error.own)},
                     {"accumulated", mean_json(error.accumulated)},
                     {"alone_squared", mean_json(error.alone)},
                     {"added_squared", mean_json(error.added)}};
}

Json layers_json(const DeployPage& page, const std::vector<std::vector<std::uint32_t>>& steps) {
    const auto& mapping = page.result.mapping;
    const auto windows = layer_windows(page, steps);
    const auto matrices = static_cast<std::uint32_t>(mapping.matrices.size());
    Json list = Json::array();
    for (std::uint32_t m = 0; m < matrices; ++m) {
        auto json = layer_json(page.layers[m], windows[m]);
        add_matrix(mapping, m, json);
        if (page.error) add_error(page.error->error.matrices.at(m), json);
        list.push_back(std::move(json));
    }
    if (std::ranges::find(steps, std::vector{matrices}) != steps.end()) {
        auto json = layer_json(page.layers[matrices], windows[matrices]);
        json["name"] = "(before the first matrix)";
        list.push_back(std::move(json));
    }
    return list;
}

Json steps_json(const Pipeline& pipeline, const std::vector<std::vector<std::uint32_t>>& layers) {
    Json list = Json::array();
    for (std::size_t s = 0; s < pipeline.steps.size(); ++s) {
        const auto& step = pipeline.steps[s];
        list.push_back({{"name", step.name}, {"op", step.op}, {"rows", step.rows}, {"layers", layers[s]}});
    }
    return list;
}

Json cores_json(const Mapping& mapping) {
    Json list = Json::array();
    for (const auto& use : core_uses(mapping))
        list.push_back({{"core", use.core}, {"utilisation", use.utilisation}, {"products", use.products}});
    return list;
}

Json regions_json(const Mapping& mapping) {
    Json list = Json::array();
    for (const auto& r : mapping.regions)
        list.push_back({r.matrix, r.replica, r.core, r.row, r.col, r.tile.first_row, r.tile.rows,
                        r.tile.first_col, r.tile.cols});
    return list;
}

// Nanoseconds, rounded to a picosecond: short, and finer than any product.
double nanoseconds(double seconds) {
    return std::round(seconds * 1e12) / 1e3;
}

Json timeline_json(const Schedule& schedule) {
    const auto drawn = drawn_spans(schedule, kMostSpans);
    Json lanes = Json::array();
    std::vector<Resource> resources;
    for (const auto& use : schedule.uses) {
        resources.push_back(use.resource);
        lanes.push_back({{"name", resource_name(use.resource, schedule.grid)},
                         {"kind", to_string(use.resource.kind)},
                         {"busy_seconds", use.seconds}});
    }
    Json spans = Json::array();
    for (const auto& s : drawn.spans) {
        const auto lane = std::ranges::find(resources, s.resource) - resources.begin();
        const auto layer = s.matrix == kNoMatrix ? Json(-1) : Json(s.matrix);
        spans.push_back(
            {lane, s.step, layer, s.copy, s.first_row, s.rows, nanoseconds(s.begin), nanoseconds(s.end)});
    }
    return {{"lanes", lanes}, {"spans", spans}, {"window_seconds", drawn.window_seconds}};
}

Json error_json(const ExplainedError& explained) {
    Json causes = Json::array();
    for (const auto& c : summarize_causes(explained.causes))
        causes.push_back({{"name", c.item->name},
                          {"help", c.item->help},
                          {"alone_error", mean_json(c.alone_error)},
                          {"alone_share", mean_json(c.alone)},
                          {"saved_share", mean_json(c.saved)}});
    return {{"squared_error", mean_json(explained.error.total)},
            {"chips", explained.error.total.n},
            {"causes", causes}};
}

}  // namespace

std::string deploy_json(const DeployPage& page) {
    const auto& mapping = page.result.mapping;
    const auto steps = step_layers(page.pipeline, mapping.matrices.size());
    Json document{{"schema", kDeploySchema},
                  {"name", page.name},
                  {"chip", page.chip},
                  {"command", page.command},
                  {"explain_command", page.explain_command},
                  {"verified", page.verified},
                  {"plan", plan_json(page.result)},
                  {"time", time_json(page.schedule)},
                  {"energy", energy_json(page.cost)},
                  {"area_mm2", page.cost.area_mm2 ? Json(*page.cost.area_mm2) : Json()},
                  {"core_products", page.cost.core_products},
                  {"operations", page.cost.operations},
                  {"layers", layers_json(page, steps)},
                  {"steps", steps_json(page.pipeline, steps)},
                  {"cores", cores_json(mapping)},
                  {"regions", regions_json(mapping)},
                  {"timeline", timeline_json(page.schedule)}};
    if (page.error) document["error"] = error_json(*page.error);
    // A name can contain bytes that are not UTF-8.
    return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string render_deploy_page(std::string_view json) {
    return filled_page(embedded::deploy_page_html, {{"@css@", embedded::report_css},
                                                    {"@deploy.css@", embedded::deploy_page_css},
                                                    {"@json@", escape_json_in_script(json)},
                                                    {"@shared.js@", embedded::report_shared_js},
                                                    {"@deploy.js@", embedded::deploy_page_js}});
}

}  // namespace imka::report

// The JSON document that compares chips for one model (docs/formats.md), and the page that contains it.
#include <nlohmann/json.hpp>

#include "imka/report/html_page.hpp"
#include "imka/report/what_if_page.hpp"

namespace imka::embedded {
extern const std::string_view report_css;
extern const std::string_view report_shared_js;
extern const std::string_view what_if_page_html;
extern const std::string_view what_if_page_css;
extern const std::string_view what_if_page_js;
}  // namespace imka::embedded

namespace imka::report {
namespace {

using Json = nlohmann::ordered_json;

Json cost_json(const std::optional<CostValue>& cost) {
    if (!cost) return {};
    return {{"value", cost->value}, {"low", cost->low}, {"high", cost->high}};
}

Json point_json(const WhatIfPoint& p) {
    Json values = Json::array();
    for (const auto& [key, value] : p.constants) values.push_back(value);
    return {{"best", p.best},
            {"values", values},
            {"cores", p.cores},
            {"chips", p.chips},
            {"latency_seconds", p.latency_seconds},
            {"energy_joules", cost_json(p.joules)},
            {"area_mm2", cost_json(p.area_mm2)},
            {"error", {{"mean", p.error.mean}, {"ci95", p.error.n > 1 ? Json(p.error.half_width) : Json()}}}};
}

}  // namespace

std::string what_if_json(const WhatIfPage& page) {
    Json document{
        {"schema", kWhatIfSchema}, {"name", page.name}, {"chip", page.chip}, {"command", page.command}};
    document["axes"] = Json::array();
    for (const auto& axis : page.axes)
        document["axes"].push_back({{"key", axis.key}, {"values", axis.values}});
    document["seeds"] = page.points.empty() ? 0 : page.points.front().error.n;
    document["points"] = Json::array();
    for (const auto& p : page.points) document["points"].push_back(point_json(p));
    document["assumptions"] = Json::array();
    for (const auto& p : page.assumptions)
        document["assumptions"].push_back({{"name", p.name},
                                           {"value", p.value},
                                           {"low", p.low},
                                           {"high", p.high},
                                           {"unit", p.unit},
                                           {"source", p.source}});
    return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string render_what_if_page(std::string_view json, std::string_view chart_js) {
    return filled_page(embedded::what_if_page_html, {{"@css@", embedded::report_css},
                                                     {"@what_if.css@", embedded::what_if_page_css},
                                                     {"@json@", escape_json_in_script(json)},
                                                     {"@chart.js@", escape_script(chart_js)},
                                                     {"@shared.js@", embedded::report_shared_js},
                                                     {"@what_if.js@", embedded::what_if_page_js}});
}

}  // namespace imka::report

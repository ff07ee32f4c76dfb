// JSON of a report: the summary for programs and the data that the page's script draws.
#include <cmath>
#include <nlohmann/json.hpp>

#include "imka/report/report.hpp"

namespace imka::report {
namespace {

using Json = nlohmann::ordered_json;

Json counts_json(const Counts& c) {
    return {{"reproduced", c.reproduced},
            {"deviates", c.deviates},
            {"missing", c.missing},
            {"other_protocol", c.unlike},
            {"unpublished", c.unpublished}};
}

std::string dumped(const Json& j) {
    // A name or message may hold bytes that are no UTF-8.
    return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json deviating(const Report& report) {
    Json list = Json::array();
    for (const auto& section : report.sections) {
        for (const auto& drawn : section.figures) {
            for (const auto& curve : drawn.figure.curves) {
                for (const auto& p : curve.points) {
                    if (p.verdict != Verdict::deviates) continue;
                    list.push_back(
                        {{"experiment", section.experiment},
                         {"dataset", drawn.figure.dataset},
                         {"kernel", drawn.figure.kernel},
                         {"sampler", curve.sampler},
                         {"log_ratio", p.log_ratio},
                         {"m", p.m},
                         {"quantity", to_string(drawn.figure.quantity)},
                         {"mean", p.ours.mean},
                         {"published", p.published->mean},
                         {"difference", p.difference()},
                         {"standard_errors", std::isfinite(p.errors()) ? Json(p.errors()) : Json()}});
                }
            }
        }
    }
    return list;
}

}  // namespace

std::string summary_json(const Report& report) {
    Json experiments = Json::array();
    for (const auto& s : report.sections) {
        experiments.push_back(
            {{"name", s.experiment}, {"figures", s.figures.size()}, {"verdicts", counts_json(s.counts)}});
    }
    Json flags = Json::array();
    for (const auto& f : report.flags)
        flags.push_back({{"name", f.name}, {"title", f.title}, {"details", f.details}});
    Json absent = Json::array();
    for (const auto& a : report.absent) {
        absent.push_back({{"experiment", a.experiment},
                          {"dataset", a.dataset},
                          {"kernel", a.kernel},
                          {"values", a.values}});
    }
    return dumped({{"title", report.title},
                   {"records", report.set.records.size()},
                   {"verdicts", counts_json(report.counts)},
                   {"experiments", experiments},
                   {"deviating", deviating(report)},
                   {"absent", absent},
                   {"flags", flags}});
}

std::string plots_json(const std::vector<Plot>& plots) {
    Json list = Json::array();
    for (const auto& plot : plots) {
        Json series = Json::array();
        for (const auto& s : plot.series) {
            Json points = Json::array();
            for (const auto& p : s.points)
                points.push_back({{"x", p.x}, {"y", p.y}, {"e", p.error}, {"n", p.n}});
            series.push_back({{"label", s.label},
                              {"style", s.style},
                              {"dashed", s.dashed},
                              {"published", s.published},
                              {"points", points}});
        }
        list.push_back({{"id", plot.id},
                        {"title", plot.title},
                        {"x", plot.x_label},
                        {"y", plot.y_label},
                        {"digits", plot.digits},
                        {"most", plot.most},
                        {"series", series}});
    }
    return dumped(list);
}

}  // namespace imka::report

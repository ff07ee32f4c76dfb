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
                         {"backend", curve.backend},
                         {"log_ratio", p.log_ratio},
                         {"m", p.m},
                         {"quantity", to_string(drawn.figure.quantity)},
                         {"mean", p.ours.mean},
                         {"published", p.published->value.mean},
                         {"difference", p.difference()},
                         {"standard_errors", std::isfinite(p.errors()) ? Json(p.errors()) : Json()}});
                }
            }
        }
    }
    return list;
}

Json point_json(const PlotPoint& p) {
    Json j = {{"x", p.x}, {"y", p.y}, {"e", p.error}, {"n", p.n}};
    if (p.x_error > 0.0) j["xe"] = p.x_error;
    if (!p.name.empty()) j["name"] = p.name;
    return j;
}

Json mean_json(const MeanDifference& mean) {
    if (mean.datasets == 0) return {};
    return {{"datasets", mean.datasets},      {"mean", mean.mean},    {"standard_error", mean.error},
            {"mean_absolute", mean.absolute}, {"lowest", mean.worst}, {"lowest_dataset", mean.worst_dataset}};
}

Json differences_json(const Section& section) {
    Json list = Json::array();
    for (const auto& s : summarise_differences(section.differences)) {
        list.push_back({{"kernel", s.kernel},
                        {"size", rule_name(s.rule)},
                        {"imka", mean_json(s.ours)},
                        {"imka_shared", mean_json(s.ours_shared)},
                        {"published", mean_json(s.published)}});
    }
    return list;
}

Json holding_json(const Holding& h) {
    return {{"holds", h.holds}, {"cases", h.cases}, {"numbers", h.numbers}};
}

Json claims_json(const Section& section) {
    Json list = Json::array();
    for (const auto& c : section.claims) {
        list.push_back({{"statement", c.text},
                        {"imka", holding_json(c.ours)},
                        {"published", holding_json(c.published)}});
    }
    return list;
}

Json fidelity_row_json(const FidelityScore& row) {
    return {{"dataset", row.dataset},
            {"kernel", row.kernel},
            {"cells", row.cells},
            {"rms", row.rms},
            {"expected_noise", row.noise},
            {"mean", row.bias},
            {"accuracy_cells", row.accuracy_cells},
            {"accuracy_agrees", row.accuracy_agrees}};
}

Json fidelity_cell_json(const FidelityCell& c) {
    Json j = {{"dataset", c.dataset},
              {"kernel", c.kernel},
              {"sampler", c.sampler},
              {"log_ratio", c.log_ratio},
              {"m", c.m},
              {"seeds", c.error.n},
              {"gram_error", c.error.mean},
              {"gram_error_measured", c.error_measured.mean},
              {"residual", c.residual()},
              {"residual_error", c.residual_error()}};
    if (c.accuracy && c.accuracy_measured) {
        j["accuracy"] = c.accuracy->mean;
        j["accuracy_measured"] = c.accuracy_measured->mean;
        j["accuracy_agrees"] = c.accuracy_agrees();
    }
    return j;
}

Json fidelity_json(const Section& section) {
    Json list = Json::array();
    for (const auto& f : section.fidelity) {
        Json aims = Json::array();
        for (const auto& a : f.aims) {
            aims.push_back({{"quantity", a.quantity}, {"aim", a.aim}, {"value", a.value}, {"met", a.met}});
        }
        Json rows = Json::array();
        for (const auto* part : {&f.rows, &f.totals}) {
            for (const auto& row : *part) rows.push_back(fidelity_row_json(row));
        }
        Json cells = Json::array();
        for (const auto& c : f.cells) cells.push_back(fidelity_cell_json(c));
        list.push_back({{"chip", f.chip}, {"aims", aims}, {"rows", rows}, {"cells", cells}});
    }
    return list;
}

}  // namespace

std::string summary_json(const Report& report) {
    Json experiments = Json::array();
    for (const auto& s : report.sections) {
        experiments.push_back({{"name", s.experiment},
                               {"figures", s.figures.size()},
                               {"verdicts", counts_json(s.counts)},
                               {"chip_minus_fp32", differences_json(s)},
                               {"statements", claims_json(s)},
                               {"fidelity", fidelity_json(s)}});
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
            for (const auto& p : s.points) points.push_back(point_json(p));
            series.push_back({{"label", s.label},
                              {"style", s.style},
                              {"dashed", s.dashed},
                              {"published", s.published},
                              {"line", s.line},
                              {"shift", shift_of(plot, s)},
                              {"points", points}});
        }
        Json ticks = Json::array();
        for (const auto& t : plot.ticks) ticks.push_back({{"value", t.at}, {"label", t.name}});
        constexpr std::string_view kReferences[] = {"none", "diagonal", "zero"};
        list.push_back({{"id", plot.id},
                        {"title", plot.title},
                        {"x", plot.x_label},
                        {"y", plot.y_label},
                        {"digits", plot.digits},
                        {"most", plot.most},
                        {"ticks", ticks},
                        {"log", plot.logarithmic},
                        {"reference", kReferences[static_cast<std::size_t>(plot.reference)]},
                        {"series", series}});
    }
    return dumped(list);
}

}  // namespace imka::report

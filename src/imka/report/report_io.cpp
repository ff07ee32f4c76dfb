// The JSON document of a report (docs/formats.md). The page and `imka report --json` show this document.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "imka/data/registry.hpp"
#include "imka/report/html_page.hpp"
#include "imka/report/report.hpp"

namespace imka::embedded {
extern const std::string_view report_html;
extern const std::string_view report_css;
extern const std::string_view report_js;
extern const std::string_view report_shared_js;
}  // namespace imka::embedded

namespace imka::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kVerdicts[] = {"reproduced", "deviates", "missing", "other_protocol",
                                          "unpublished"};

std::string_view verdict_name(Verdict verdict) {
    return kVerdicts[static_cast<std::size_t>(verdict)];
}

Json counts_json(const Counts& c) {
    return {{"reproduced", c.reproduced},
            {"deviates", c.deviates},
            {"missing", c.missing},
            {"other_protocol", c.unlike},
            {"unpublished", c.unpublished}};
}

template <class List, class ToJson>
Json list_json(const List& list, const ToJson& to_json) {
    Json all = Json::array();
    for (const auto& one : list) all.push_back(to_json(one));
    return all;
}

// Plots

Json plot_point_json(const PlotPoint& p) {
    Json j = {{"x", p.x}, {"y", p.y}, {"e", p.error}, {"n", p.n}};
    if (p.below) j["below"] = *p.below;
    if (p.x_error > 0.0) j["xe"] = p.x_error;
    if (!p.name.empty()) j["name"] = p.name;
    return j;
}

Json plot_json(const Plot& plot) {
    constexpr std::string_view kReferences[] = {"none", "diagonal", "zero"};
    const auto series = list_json(plot.series, [&](const Series& s) {
        return Json{{"label", s.label},
                    {"style", s.style},
                    {"dashed", s.dashed},
                    {"published", s.published},
                    {"line", s.draw != Draw::marks},
                    {"marks", s.draw != Draw::curve},
                    {"shift", shift_of(plot, s)},
                    {"points", list_json(s.points, plot_point_json)}};
    });
    const auto ticks = list_json(plot.ticks, [](const Tick& t) {
        return Json{{"value", t.at}, {"label", t.name}};
    });
    // Both axes of a plot with a diagonal have the same range.
    const bool square = plot.log_x && plot.log_y && plot.reference == Reference::diagonal;
    Json j = {{"id", plot.id},
              {"title", plot.title},
              {"x", plot.x_label},
              {"y", plot.y_label},
              {"digits", plot.digits},
              {"most", plot.most},
              {"ticks", ticks},
              {"log", square},
              {"reference", kReferences[static_cast<std::size_t>(plot.reference)]},
              {"alt", plot.alt},
              {"series", series}};
    if (plot.log_x && !square) j["log_x"] = true;
    if (plot.log_y && !square) j["log_y"] = true;
    return j;
}

// Figures

// The spread of one value is unknown.
Json spread_json(const Summary& s, double value) {
    return s.n > 1 ? Json(value) : Json();
}

Json statistics_json(const Summary& s) {
    return {{"mean", s.mean},
            {"std", spread_json(s, s.std)},
            {"standard_error", spread_json(s, s.error())},
            {"n", s.n}};
}

Json point_json(const Point& p) {
    Json j = {{"log_ratio", p.log_ratio},
              {"m", p.m != 0 || !p.published ? p.m : p.published->m},
              {"verdict", verdict_name(p.verdict)}};
    if (p.ours.n > 0) {
        j["imka"] = statistics_json(p.ours);
        j["imka"]["half_width"] = spread_json(p.ours, p.ours.half_width);
    }
    if (p.published) j["published"] = statistics_json(p.published->value);
    if (p.ours.n > 0 && p.published) {
        j["difference"] = p.difference();
        j["standard_errors"] = p.errors();
    }
    if (!p.unlike.empty()) j["reason"] = p.unlike;
    return j;
}

Json figure_json(const DrawnFigure& drawn) {
    const auto& f = drawn.figure;
    return {{"id", drawn.plot.id},
            {"dataset", f.dataset},
            {"protocol", f.protocol},
            {"kernel", f.kernel},
            {"quantity", to_string(f.quantity)},
            {"verdicts", counts_json(drawn.counts)},
            {"command", figure_command(f)},
            {"curves", list_json(f.curves,
                                 [](const Curve& c) {
                                     return Json{{"label", c.label()},
                                                 {"sampler", c.sampler},
                                                 {"backend", c.backend},
                                                 {"points", list_json(c.points, point_json)}};
                                 })},
            {"plot", plot_json(drawn.plot)}};
}

template <class Visit>
void each_point(const Report& report, const Visit& visit) {
    for (const auto& section : report.sections) {
        for (const auto& drawn : section.figures) {
            for (const auto& curve : drawn.figure.curves) {
                for (const auto& p : curve.points) visit(drawn, curve, p);
            }
        }
    }
}

bool random_split(const std::string& dataset) {
    const auto* set = find_set(dataset);
    return set != nullptr && set->random_split;
}

Json deviating_json(const Report& report) {
    Json list = Json::array();
    each_point(report, [&](const DrawnFigure& drawn, const Curve& curve, const Point& p) {
        if (p.verdict != Verdict::deviates) return;
        const auto& f = drawn.figure;
        list.push_back({{"experiment", f.experiment},
                        {"dataset", f.dataset},
                        {"random_split", random_split(f.dataset)},
                        {"kernel", f.kernel},
                        {"sampler", curve.sampler},
                        {"backend", curve.backend},
                        {"label", curve.label()},
                        {"figure", drawn.plot.id},
                        {"log_ratio", p.log_ratio},
                        {"m", p.m},
                        {"quantity", to_string(f.quantity)},
                        {"mean", p.ours.mean},
                        {"std", spread_json(p.ours, p.ours.std)},
                        {"published", p.published->value.mean},
                        {"published_std", spread_json(p.published->value, p.published->value.std)},
                        {"difference", p.difference()},
                        {"standard_errors", p.errors()}});
    });
    return list;
}

// Expected number of judged means beyond the limit by chance (Student's t, because a mean has few seeds).
double expected_by_chance(const Report& report) {
    double sum = 0.0;
    each_point(report, [&](const DrawnFigure&, const Curve&, const Point& p) {
        if (p.verdict != Verdict::reproduced && p.verdict != Verdict::deviates) return;
        const auto seeds = p.ours.n + p.published->value.n;
        if (seeds > 2) sum += 1.0 - student_probability(kAllowedErrors, seeds - 2);
    });
    return sum;
}

// Averages and statements of the paper

const std::string& size_name(std::size_t rule) {
    return paper().sizes.at(rule).name;
}

// A level does not store its number of seeds; an error of 0 means that all its means have one seed.
Json spread_json(double value) {
    return value > 0.0 ? Json(value) : Json();
}

Json level_json(const std::optional<Level>& level) {
    if (!level) return {};
    return {{"mean", level->mean},
            {"std", spread_json(level->std)},
            {"standard_error", spread_json(level->error)}};
}

Json accuracy_json(const AccuracyRow& row) {
    Json levels = Json::array();
    for (std::size_t rule = 0; rule < row.ours.size(); ++rule) {
        levels.push_back({{"size", size_name(rule)},
                          {"imka", level_json(row.ours.at(rule))},
                          {"published", level_json(row.published.at(rule))},
                          {"verdict", verdict_name(row.verdicts.at(rule))}});
    }
    return {{"dataset", row.dataset}, {"kernel", row.kernel}, {"backend", row.backend}, {"levels", levels}};
}

Json mean_json(const MeanDifference& mean) {
    if (mean.datasets == 0) return {};
    return {
        {"datasets", mean.datasets},      {"mean", mean.mean},    {"standard_error", spread_json(mean.error)},
        {"mean_absolute", mean.absolute}, {"lowest", mean.worst}, {"lowest_dataset", mean.worst_dataset}};
}

Json summary_json(const DifferenceSummary& s) {
    return {{"kernel", s.kernel},
            {"size", size_name(s.rule)},
            {"imka", mean_json(s.ours)},
            {"imka_shared", mean_json(s.ours_shared)},
            {"published", mean_json(s.published)}};
}

Json holding_json(const Holding& h) {
    return {{"holds", h.holds}, {"cases", h.cases}, {"numbers", h.numbers}};
}

Json statement_json(const CheckedStatement& c) {
    return {{"statement", c.text}, {"imka", holding_json(c.ours)}, {"published", holding_json(c.published)}};
}

// Fidelity

Json fidelity_row_json(const FidelityScore& row) {
    return {{"dataset", row.dataset},
            {"kernel", row.kernel},
            {"cells", row.cells},
            {"rms", row.rms},
            {"expected_noise", row.noise},
            {"excess", row.excess()},
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
              {"gram_error_se", c.error.error()},
              {"gram_error_measured", c.error_measured.mean},
              {"gram_error_measured_se", c.error_measured.error()},
              {"residual", c.residual()},
              {"residual_error", c.residual_error()}};
    if (c.accuracy && c.accuracy_measured) {
        j["accuracy"] = c.accuracy->mean;
        j["accuracy_se"] = c.accuracy->error();
        j["accuracy_measured"] = c.accuracy_measured->mean;
        j["accuracy_measured_se"] = c.accuracy_measured->error();
        j["accuracy_agrees"] = c.accuracy_agrees();
    }
    return j;
}

Json fidelity_json(const Fidelity& f) {
    auto rows = list_json(f.rows, fidelity_row_json);
    for (const auto& total : f.totals) rows.push_back(fidelity_row_json(total));
    const auto aims = list_json(f.aims, [](const FidelityAim& a) {
        return Json{{"quantity", a.quantity},
                    {"aim", a.aim},
                    {"value", a.value},
                    {"expected_noise", a.noise},
                    {"met", a.met}};
    });
    return {
        {"chip", f.chip}, {"aims", aims}, {"rows", rows}, {"cells", list_json(f.cells, fidelity_cell_json)}};
}

// Attention

Json attention_point_json(const AttentionPoint& p) {
    return {{"x", p.x},           {"median", p.value.median},
            {"low", p.value.low}, {"high", p.value.high},
            {"mean", p.mean},     {"n", p.n}};
}

Json attention_json(const AttentionFigure& f) {
    return {{"title", f.title},
            {"caption", f.caption},
            {"notes", f.notes},
            {"command", f.command},
            {"curves", list_json(f.curves,
                                 [](const AttentionCurve& c) {
                                     return Json{{"label", c.label},
                                                 {"on_chip", c.on_chip},
                                                 {"points", list_json(c.points, attention_point_json)}};
                                 })},
            {"plot", plot_json(f.plot)}};
}

Json heat_maps_json(const AttentionMaps& m) {
    return {{"title", m.title}, {"maps", list_json(m.maps, [](const HeatMap& map) {
                                     return Json{{"name", map.name}, {"png", base64(png_bytes(map.levels))}};
                                 })}};
}

// Tables of accuracies by task

Json share_json(const std::optional<double>& value) {
    return value ? Json(*value) : Json();
}

Json task_cell_json(const std::string& task, const TaskCell& c) {
    Json j = {{"task", task}};
    if (c.accuracy.n > 0) {
        j["imka"] = statistics_json(c.accuracy);
        j["imka"]["examples"] = c.examples;
        j["imka"]["standard_error_examples"] = c.example_error();
    }
    if (c.minus_digital) j["minus_digital"] = statistics_json(*c.minus_digital);
    if (c.published) j["published"] = {{"mean", *c.published}, {"std", share_json(c.published_deviation)}};
    if (c.published_minus_digital) j["published_minus_digital"] = *c.published_minus_digital;
    return j;
}

Json task_average_json(const TaskAverage& a) {
    Json j = {{"tasks", a.tasks},
              {"mean", a.mean},
              {"standard_error", spread_json(a.error)},
              {"published", a.published}};
    if (a.minus_baseline) j["minus_baseline"] = *a.minus_baseline;
    if (a.published_minus_baseline) j["published_minus_baseline"] = *a.published_minus_baseline;
    return j;
}

Json task_table_json(const TaskTable& t) {
    Json rows = Json::array();
    for (const auto& row : t.rows) {
        Json j = {{"model", row.model}, {"mode", row.mode}, {"cells", Json::array()}};
        for (std::size_t i = 0; i < t.tasks.size(); ++i)
            j["cells"].push_back(task_cell_json(t.tasks[i], row.cells[i]));
        if (row.average) j["average"] = task_average_json(*row.average);
        if (row.published_average) j["published_average"] = *row.published_average;
        rows.push_back(std::move(j));
    }
    return {{"name", t.name},   {"title", t.title}, {"source", t.source},   {"baseline", t.baseline},
            {"tasks", t.tasks}, {"rows", rows},     {"missing", t.missing}, {"notes", t.notes}};
}

Json plot_group_json(const PlotGroup& g) {
    return {{"title", g.title}, {"caption", g.caption}, {"plots", list_json(g.plots, plot_json)}};
}

// Settings beside published ones

Json setting_table_json(const SettingTable& t) {
    const auto rows = list_json(t.rows, [](const SettingRow& row) {
        return Json{{"name", row.name}, {"cells", list_json(row.cells, [](const SettingCell& c) {
                                             return Json{{"imka", c.imka},
                                                         {"published", c.published},
                                                         {"differs", c.differs},
                                                         {"reason", c.reason}};
                                         })}};
    });
    return {{"name", t.name},   {"title", t.title}, {"source", t.source},
            {"tasks", t.tasks}, {"rows", rows},     {"notes", t.notes}};
}

Json section_json(const Section& s) {
    Json j = {{"name", s.experiment},
              {"title", s.title},
              {"what", s.what},
              {"verdicts", counts_json(s.counts)},
              {"figures", list_json(s.figures, figure_json)},
              {"accuracy", list_json(s.accuracy, accuracy_json)},
              {"accuracy_differences", list_json(s.differences, accuracy_json)},
              {"chip_minus_fp32", list_json(summarise_differences(s.differences), summary_json)},
              {"accuracy_plots", list_json(s.accuracy_plots, plot_json)},
              {"normalised_plots", list_json(s.normalised, plot_json)},
              {"statements", list_json(s.statements, statement_json)},
              {"fidelity", list_json(s.fidelity, fidelity_json)},
              {"fidelity_plots", list_json(s.fidelity_plots, plot_json)}};
    if (!s.attention.empty()) j["attention"] = list_json(s.attention, attention_json);
    if (!s.note.empty()) j["note"] = s.note;
    if (!s.tables.empty()) j["tables"] = list_json(s.tables, task_table_json);
    if (!s.plots.empty()) j["plots"] = list_json(s.plots, plot_group_json);
    if (!s.settings.empty()) j["settings"] = list_json(s.settings, setting_table_json);
    if (!s.heat_maps.empty()) j["heat_maps"] = list_json(s.heat_maps, heat_maps_json);
    return j;
}

// Provenance

// [{"value": "0.1.0", "runs": 1800}, ...]
template <class Trait>
Json tally_json(const std::vector<Record>& records, const Trait& trait) {
    std::map<std::string, std::size_t> counts;
    for (const auto& r : records) ++counts[trait(r)];
    return list_json(counts, [](const auto& c) { return Json{{"value", c.first}, {"runs", c.second}}; });
}

Json data_json(const std::vector<Record>& records) {
    std::map<std::pair<std::string, std::string>, std::size_t> counts;
    for (const auto& r : records) {
        if (r.data_sha256.empty()) continue;
        const auto* suffix = r.setting("protocol") == "measured" ? ", measured" : "";
        ++counts[{r.setting("dataset") + suffix, r.data_sha256}];
    }
    return list_json(counts, [](const auto& c) {
        return Json{{"dataset", c.first.first}, {"sha256", c.first.second}, {"runs", c.second}};
    });
}

Json provenance_json(const std::vector<Record>& records) {
    double seconds = 0.0;
    double memory = 0.0;
    std::string finished;
    std::set<std::string> experiments;
    for (const auto& r : records) {
        seconds += r.wall_seconds;
        memory = std::max(memory, r.peak_memory_mb);
        finished = std::max(finished, r.finished);
        experiments.insert(r.experiment);
    }
    return {{"experiments", experiments},
            {"program", tally_json(records, [](const Record& r) { return r.imka_version; })},
            {"build", tally_json(records, [](const Record& r) { return r.build; })},
            {"instruction_set", tally_json(records, [](const Record& r) { return r.instruction_set; })},
            {"wall_seconds", seconds},
            {"peak_memory_mb", memory},
            {"finished", finished},
            {"data", data_json(records)}};
}

}  // namespace

std::string report_json(const Report& report) {
    const auto flags = list_json(report.flags, [](const Flag& f) {
        return Json{{"name", f.name}, {"title", f.title}, {"details", f.details}};
    });
    const auto absent = list_json(report.absent, [](const Absent& a) {
        return Json{
            {"experiment", a.experiment}, {"dataset", a.dataset}, {"kernel", a.kernel}, {"values", a.values}};
    });
    const Json document = {{"schema", kReportSchema},
                           {"title", report.title},
                           {"records", report.set.records.size()},
                           {"verdicts", counts_json(report.counts)},
                           {"allowed_standard_errors", kAllowedErrors},
                           {"expected_by_chance", expected_by_chance(report)},
                           {"experiments", list_json(report.sections, section_json)},
                           {"deviating", deviating_json(report)},
                           {"absent", absent},
                           {"flags", flags},
                           {"notes", report.notes},
                           {"provenance", provenance_json(report.set.records)}};
    // A name or message can contain bytes that are not UTF-8.
    return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string render_page(std::string_view json, std::string_view chart_js) {
    return filled_page(embedded::report_html, {{"@css@", embedded::report_css},
                                               {"@json@", escape_json_in_script(json)},
                                               {"@chart.js@", escape_script(chart_js)},
                                               {"@shared.js@", embedded::report_shared_js},
                                               {"@page.js@", embedded::report_js}});
}

}  // namespace imka::report

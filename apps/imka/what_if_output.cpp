#include "what_if_output.hpp"

#include <fmt/format.h>

#include "chip/options.hpp"
#include "cost_text.hpp"
#include "gnuplot.hpp"
#include "imka/base/file.hpp"
#include "imka/deploy/timeline.hpp"
#include "report_files.hpp"

namespace imka::app {
namespace {

Json point_json(const WhatIfPoint& p) {
    Json constants = Json::object();
    for (const auto& [key, value] : p.constants) constants[key] = value;
    return {{"best", p.best},
            {"constants", constants},
            {"cores", p.cores},
            {"chips", p.chips},
            {"latency_seconds", p.latency_seconds},
            {"energy_joules", value_json(p.joules)},
            {"area_mm2", value_json(p.area_mm2)},
            {"error", summary_json(p.error)}};
}

report::Plot what_if_plot(const std::vector<WhatIfPoint>& points, const std::string& title) {
    report::Plot plot{.title = title,
                      .x_label = "energy of an inference (uJ)",
                      .y_label = "error of the outputs (%)",
                      .series = {{.label = "best", .draw = report::Draw::marks},
                                 {.label = "others", .draw = report::Draw::marks}},
                      .log_x = true};
    for (const auto& p : points) {
        if (!p.joules) continue;
        plot.series[p.best ? 0 : 1].points.push_back(
            {.x = 1e6 * p.joules->value, .y = 100.0 * p.error.mean, .error = 100.0 * p.error.half_width});
    }
    return plot;
}

void print_points(const std::vector<WhatIfPoint>& points) {
    TextTable table = {{"best"}};
    for (const auto& [key, value] : points.front().constants) table[0].push_back(key);
    for (const auto* title : {"cores", "chips", "latency", "uJ (interval)", "mm2 (interval)", "error %"})
        table[0].emplace_back(title);
    for (const auto& p : points) {
        std::vector<std::string> row{p.best ? "yes" : ""};
        for (const auto& [key, value] : p.constants) row.push_back(value);
        for (auto& cell :
             {std::to_string(p.cores), std::to_string(p.chips), seconds_text(p.latency_seconds),
              value_text(p.joules, 1e-6), value_text(p.area_mm2, 1.0), mean_text(p.error, 100.0)})
            row.push_back(cell);
        table.push_back(std::move(row));
    }
    print_out("{}", format_table(table));
    print_out("error: of the outputs relative to FP32, ± half of the 95 % interval over chips\n");
    print_out("best: no other chip is at least as good in error, energy and latency, and better in one\n");
}

}  // namespace

void show_what_if(const report::WhatIfPage& page, const WhatIfFiles& files, const Context& context) {
    const auto title = page.name + " on variants of " + page.chip;
    if (!files.figure.empty()) draw_file(what_if_plot(page.points, title), files.figure);
    if (!files.page.empty())
        write_file_atomic(files.page, report::render_what_if_page(report::what_if_json(page),
                                                                  read_chart_js(files.chart_js)));
    if (context.json) {
        Json rows = Json::array();
        for (const auto& p : page.points) rows.push_back(point_json(p));
        return print_json(
            {{"backend", page.chip}, {"chips", rows}, {"assumptions", parameters_json(page.assumptions)}});
    }
    print_out("{}\n\n", title);
    print_points(page.points);
    if (!page.assumptions.empty())
        print_out("\nenergy and area of other cores, nodes and tiers follow from these parameters:\n{}",
                  parameters_text(page.assumptions));
    print_figure_note(files.figure);
}

}  // namespace imka::app

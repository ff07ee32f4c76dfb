// A report: the content of the page, of the figures for papers and of the summary, computed only from
// records.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "imka/experiment/record.hpp"
#include "imka/report/attention.hpp"
#include "imka/report/averages.hpp"
#include "imka/report/fidelity.hpp"
#include "imka/report/figure.hpp"
#include "imka/report/learning_curves.hpp"
#include "imka/report/paper.hpp"
#include "imka/report/plot.hpp"
#include "imka/report/setting_tables.hpp"
#include "imka/report/task_tables.hpp"

namespace imka::report {

// Warnings about results: records that could not be used, failed runs, figures that mix programs, machines or
// data.
struct Flag {
    std::string name;   // "torn", "other_schema", "malformed", "disagrees", "failed", "mixed", "uneven"
    std::string title;  // one sentence
    std::vector<std::string> details;
};

std::vector<Flag> find_flags(const RecordSet& set);

struct DrawnFigure {
    Figure figure;
    Plot plot;
    Counts counts;
};

// Plots with one caption.
struct PlotGroup {
    std::string title;
    std::string caption;
    std::vector<Plot> plots;
};

// The figures of one experiment.
struct Section {
    std::string experiment;
    std::string title;
    std::string what;  // part of the paper; "" for a user's own experiment
    std::string note;  // a remark on the figures
    Counts counts;     // including published values without a figure
    std::vector<DrawnFigure> figures;
    std::vector<AccuracyRow> accuracy;
    std::vector<AccuracyRow> differences;  // chip - FP32
    std::vector<Plot> accuracy_plots;
    std::vector<Plot> normalised;
    std::vector<CheckedStatement> statements;
    std::vector<Fidelity> fidelity;
    std::vector<Plot> fidelity_plots;
    std::vector<AttentionFigure> attention;
    std::vector<AttentionMaps> heat_maps;
    std::vector<TaskTable> tables;
    std::vector<PlotGroup> plots;        // drift of Performers, learning curves
    std::vector<SettingTable> settings;  // not from records
};

struct Report {
    std::string title;
    RecordSet set;
    std::vector<Section> sections;
    std::vector<Absent> absent;
    std::vector<Flag> flags;
    Counts counts;
    std::map<std::string, std::string> notes;  // remarks on the published values, by part of the page
};

// If the title is empty, it is generated from the names of the experiments.
Report make_report(RecordSet set, const std::string& title,
                   const std::vector<Published>& published = published_values());

// Adds pictures of attention matrices, which are not in the records.
void add_heat_maps(Report& report, const Exec& exec);

// Adds the learning curves of training runs to an experiment.
void add_learning_curves(Report& report, const std::string& experiment, const std::vector<TrainingLog>& logs);

// Adds a table of settings, as the section with its name.
void add_settings(Report& report, SettingTable table);

// All plots, in the order of the page.
std::vector<Plot> all_plots(const Report& report);

// The report as one JSON document (docs/formats.md), which the page renders.
std::string report_json(const Report& report);
inline constexpr std::string_view kReportSchema = "imka-report-1";

// The page: a static HTML file whose script renders the JSON document of a report.

// One self-contained HTML file. Embeds `json`, the document of report_json, and `chart_js`, the source of
// Chart.js.
std::string render_page(std::string_view json, std::string_view chart_js);

}  // namespace imka::report

// A report: everything the page, the figures for papers and the summary say, computed from records alone.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "imka/experiment/record.hpp"
#include "imka/report/averages.hpp"
#include "imka/report/fidelity.hpp"
#include "imka/report/figure.hpp"
#include "imka/report/flags.hpp"
#include "imka/report/plot.hpp"
#include "imka/report/statements.hpp"

namespace imka::report {

struct DrawnFigure {
    Figure figure;
    Plot plot;
    Counts counts;
};

// The figures of one experiment.
struct Section {
    std::string experiment;
    std::string title;
    std::string what;  // which part of the paper; "" for an experiment of the user's own
    Counts counts;     // with the published values that have no figure
    std::vector<DrawnFigure> figures;
    std::vector<AccuracyRow> accuracy;
    std::vector<AccuracyRow> differences;  // chip - FP32
    std::vector<Plot> accuracy_plots;
    std::vector<Plot> normalised;
    std::vector<CheckedStatement> statements;
    std::vector<Fidelity> fidelity;
    std::vector<Plot> fidelity_plots;
};

struct Report {
    std::string title;
    RecordSet set;
    std::vector<Section> sections;
    std::vector<Absent> absent;
    std::vector<Flag> flags;
    Counts counts;
    std::map<std::string, std::string> notes;  // remarks on the published values, by the part they belong to
};

// An empty title is made from the experiments.
Report make_report(RecordSet set, const std::string& title,
                   const std::vector<Published>& published = published_values());

// All drawings, in the order of the page.
std::vector<Plot> all_plots(const Report& report);

// Everything above as one JSON document (docs/formats.md). The page renders it.
std::string report_json(const Report& report);
inline constexpr std::string_view kReportSchema = "imka-report-1";

}  // namespace imka::report

// A report: everything the page, the figures for papers and the summary say, computed from records alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "imka/experiment/record.hpp"
#include "imka/report/claims.hpp"
#include "imka/report/fidelity.hpp"
#include "imka/report/figure.hpp"
#include "imka/report/flags.hpp"
#include "imka/report/paper.hpp"
#include "imka/report/plot.hpp"

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
    std::vector<Claim> claims;
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
};

// An empty title is made from the experiments.
Report make_report(RecordSet set, const std::string& title,
                   const std::vector<Published>& published = published_values());

// All drawings, in the order of the page.
std::vector<Plot> all_plots(const Report& report);

// One self-contained HTML page. `chart_js` is the text of the figure library, which is written into it.
std::string render_page(const Report& report, std::string_view chart_js);

// The summary for programs: counts, verdicts that deviate, differences of a chip, statements of the text,
// fidelity, flags (JSON text).
std::string summary_json(const Report& report);

// What the page's script draws (JSON text).
std::string plots_json(const std::vector<Plot>& plots);

}  // namespace imka::report

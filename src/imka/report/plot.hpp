// One drawing, whatever draws it: the page's script, a small picture in the overview, gnuplot for papers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "imka/report/figure.hpp"

namespace imka::report {

struct PlotPoint {
    double x = 0.0;
    double y = 0.0;
    double error = 0.0;  // half of the error bar: one standard deviation over seeds
    std::size_t n = 0;   // seeds
};

struct Series {
    std::string label;
    std::string style;       // colour and marker: rff, orf, sorf (the paper's code) or other0 .. other3
    bool dashed = false;     // a chip
    bool published = false;  // hollow marks without a line
    std::vector<PlotPoint> points;
};

struct Plot {
    std::string id;  // anchor and file name; unique on a page
    std::string title;
    std::string x_label;
    std::string y_label;
    int digits = 2;     // of y
    double most = 0.0;  // that y can be, 100 for percent; 0: no limit
    std::string alt;    // the drawing in words
    std::vector<Series> series;
};

// Accuracy in percent, Gram error as it is. `id` is the caller's to keep unique.
Plot make_plot(const Figure& figure, const std::string& id);

// "rff falls from 0.52 to 0.11 (5 points); ..."
std::string describe(const Plot& plot);

// A picture of the curves without axes, as an <svg> element for the page.
std::string thumbnail(const Plot& plot);

// A gnuplot script that draws folder/<id>.svg and .pdf, a column wide.
std::string gnuplot_script(const std::vector<Plot>& plots, const std::filesystem::path& folder);

}  // namespace imka::report

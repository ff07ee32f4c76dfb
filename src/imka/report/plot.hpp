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
    double error =
        0.0;  // half of the error bar: one standard deviation over seeds, unless the plot says other
    std::size_t n = 0;  // seeds
    double x_error = 0.0;
    std::string name;  // what it is, where x does not say so
};

struct Series {
    std::string label;
    std::string style;       // colour and marker: rff, orf, sorf (the paper's code) or other0 .. other3
    bool dashed = false;     // a chip
    bool published = false;  // hollow marks without a line
    bool line = true;        // marks joined by one
    std::vector<PlotPoint> points;
};

struct Tick {
    double at = 0.0;
    std::string name;
};
enum class Reference { none, diagonal, zero };  // a line to compare with: y = x or y = 0

struct Plot {
    std::string id;  // anchor and file name; unique on a page
    std::string title;
    std::string x_label;
    std::string y_label;
    int digits = 2;     // of y
    double most = 0.0;  // that y can be, 100 for percent; 0: no limit
    std::string alt;    // the drawing in words
    std::vector<Series> series;
    std::vector<Tick> ticks;   // names on x; numbers where there are none
    bool logarithmic = false;  // both axes
    Reference reference = Reference::none;
    double apart = 0.045;  // curves stand so far apart in x that their error bars do not cover each other
};

// Accuracy in percent, Gram error as it is. `id` is the caller's to keep unique.
Plot make_plot(const Figure& figure, const std::string& id);

// "rff falls from 0.52 to 0.11 (5 points); ..."
std::string describe(const Plot& plot);

// How far a series is moved in x: one place for each colour and backend, published marks on their curve.
double shift_of(const Plot& plot, const Series& series);

// A picture of the curves without axes, as an <svg> element for the page.
std::string thumbnail(const Plot& plot);

// A gnuplot script that draws folder/<id>.svg and .pdf, a column wide.
std::string gnuplot_script(const std::vector<Plot>& plots, const std::filesystem::path& folder);

}  // namespace imka::report

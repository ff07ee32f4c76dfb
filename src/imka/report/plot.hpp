// A plot as a value, which the page's script, gnuplot and a terminal can draw.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace imka::report {

struct PlotPoint {
    double x = 0.0;
    double y = 0.0;
    double error = 0.0;  // half the length of the error bar
    std::size_t n = 0;   // number of seeds; 0 if not a mean over seeds
    double x_error = 0.0;
    std::string name;  // shown if x does not identify the point
    // Length of the error bar below the point, if it differs from the one above.
    std::optional<double> below = {};
};

enum class Draw {
    joined,  // marks with error bars, joined by a line
    marks,   // marks with error bars
    curve,   // a line without marks, for a formula
};

struct Series {
    std::string label;
    // Colour and marker: rff, orf, sorf (as in the paper), other0 .. other3, or "" for the next one of a
    // fixed list.
    std::string style;
    bool dashed = false;     // measured on a chip
    bool published = false;  // hollow marks without a line
    Draw draw = Draw::joined;
    std::vector<PlotPoint> points;
};

struct Tick {
    double at = 0.0;
    std::string name;
};
enum class XAxis { automatic, whole_numbers, seconds };
enum class Reference { none, diagonal, zero };  // reference line: y = x or y = 0

struct Plot {
    std::string id;  // anchor and file name; unique on a page
    std::string title;
    std::string x_label;
    std::string y_label;
    int digits = 2;     // decimals of y
    double most = 0.0;  // upper limit of y, 100 for percent; 0: no limit
    std::string alt;    // text alternative
    std::vector<Series> series;
    XAxis x_axis = XAxis::automatic;
    std::vector<Tick> ticks;  // named positions on x
    bool log_x = false;
    bool log_y = false;
    bool from_zero = false;  // the y axis starts at 0
    bool bars = false;       // horizontal bars: one group per tick, one bar per series; y is the length
    Reference reference = Reference::none;
    double apart = 0.0;  // horizontal distance between curves, so that error bars stay visible
};

// "rff falls from 0.52 at 1 to 0.11 at 5; ..."
std::string describe(const Plot& plot);

// Horizontal shift of a series: one shift per colour and backend; published marks get the shift of their
// curve.
double shift_of(const Plot& plot, const Series& series);

// Text for a terminal: a plot of 64 columns and a legend. Skips points that are not finite.
std::string draw_text(const Plot& plot);

// A gnuplot script that draws folder/<id>.svg and .pdf, one column of a paper wide.
std::string gnuplot_script(const std::vector<Plot>& plots, const std::filesystem::path& folder);
// One file, half a page wide. `format` is svg, pdf or png.
std::string gnuplot_script(const Plot& plot, const std::filesystem::path& file, std::string_view format);

// Text as a single-quoted gnuplot string, on one line.
std::string quote_gnuplot(std::string_view text);

// Lower-case letters, digits and '-', for file names and anchors; at most 60 characters.
std::string slug(std::string_view text);

}  // namespace imka::report

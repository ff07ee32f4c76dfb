// A drawing of the chip commands: one value that becomes text on a terminal or, through gnuplot, a file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace imka::app {

struct FigurePoint {
    double x = 0.0;
    double y = 0.0;
    double error = 0.0;  // half of the error bar
};

enum class FigureStyle {
    line,     // with marks and error bars
    points,   // marks and error bars alone
    formula,  // a smooth line
};

struct FigureSeries {
    std::string label;
    FigureStyle style = FigureStyle::line;
    std::vector<FigurePoint> points;
};

struct ChipFigure {
    std::string title;
    std::string x_label;
    std::string y_label;
    bool log_x = false;
    bool seconds_x = false;  // x is a time: ticks at a minute, an hour, a day, ...
    std::vector<FigureSeries> series;
};

// Horizontal bars in groups: one group a name, one bar a series.
struct BarChart {
    std::string title;
    std::string x_label;
    std::vector<std::string> names;
    struct Series {
        std::string label;
        std::vector<double> values;  // one a name
        std::vector<double> errors;
    };
    std::vector<Series> series;
};

// For a terminal: 64 columns of drawing and a legend. Points that are not finite are left out.
std::string draw_text(const ChipFigure& figure);
std::string draw_text(const BarChart& chart);

// FILE.svg, .pdf or .png by its ending; it appears whole or not at all. Error{bad_usage} for other endings,
// Error{missing_part} without gnuplot.
void draw_file(const ChipFigure& figure, const std::filesystem::path& file);
void draw_file(const BarChart& chart, const std::filesystem::path& file);

// Error{bad_usage} or Error{missing_part} before the work instead of after it; an empty path is none.
void check_figure(const std::filesystem::path& file);

}  // namespace imka::app

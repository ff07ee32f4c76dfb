// Figures for papers, drawn by gnuplot, which must be installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "imka/report/plot.hpp"

namespace imka::app {

bool gnuplot_installed();

// Writes folder/<id>.svg and .pdf of every plot atomically and returns the files. Error{missing_part} without
// gnuplot.
std::vector<std::filesystem::path> draw_figures(const std::vector<report::Plot>& plots,
                                                const std::filesystem::path& folder);

// Writes FILE.svg, .pdf or .png atomically. Error{bad_usage} for other extensions, Error{missing_part}
// without gnuplot.
void draw_file(const report::Plot& plot, const std::filesystem::path& file);

// Throws the same errors before the work starts; accepts an empty path.
void check_figure(const std::filesystem::path& file);

}  // namespace imka::app

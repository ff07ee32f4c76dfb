// Figures for papers through gnuplot, which must be installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "imka/report/plot.hpp"

namespace imka::app {

bool gnuplot_installed();

// folder/<id>.svg and .pdf of every plot; each appears whole. Error{missing_part} without gnuplot. Returns
// the files.
std::vector<std::filesystem::path> draw_figures(const std::vector<report::Plot>& plots,
                                                const std::filesystem::path& folder);

// FILE.svg, .pdf or .png by its ending; it appears whole or not at all. Error{bad_usage} for other endings,
// Error{missing_part} without gnuplot.
void draw_file(const report::Plot& plot, const std::filesystem::path& file);

// The same errors before the work instead of after it; an empty path is accepted.
void check_figure(const std::filesystem::path& file);

}  // namespace imka::app

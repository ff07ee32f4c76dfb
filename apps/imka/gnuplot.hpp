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

// One file: `commands` end in a plot and are drawn by gnuplot's `terminal`. It appears whole.
void draw_one(const std::string& terminal, const std::string& commands, const std::filesystem::path& file);

}  // namespace imka::app

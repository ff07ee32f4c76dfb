// Files and tables that `imka report` and `imka reproduce` write from a report.
#pragma once

#include <cstddef>
#include <filesystem>

#include "imka/report/report.hpp"

namespace imka::app {

struct ReportFiles {
    std::filesystem::path page;      // HTML; empty: none
    std::filesystem::path figures;   // folder for SVG and PDF; empty: none
    std::filesystem::path csv;       // records as CSV; empty: none
    std::filesystem::path chart_js;  // Chart.js
};

// Path of Debian's libjs-chart.js, or the path found when imka was built.
std::filesystem::path default_chart_js();

// Error{missing_part} that names the package if the library is missing.
void check_chart_js(const std::filesystem::path& path);
std::string read_chart_js(const std::filesystem::path& path);

struct Written {
    std::size_t page_bytes = 0;
    std::size_t figures = 0;  // files
};
// Checks all requirements before writing anything. Error{missing_part} names the package.
Written write_report(const report::Report& report, const ReportFiles& files);

// Prints counts, deviating means, fidelity of chips, warnings.
void print_summary(const report::Report& report);

// Prints the difference between emulated chips and the measured one, by data set and kernel. Error{bad_data}
// if no run can be compared.
void print_fidelity(const report::Report& report);

// Prints the accuracy that chips lose against FP32, averaged over data sets. Error{bad_data} if no run on a
// chip has a matching FP32 run.
void print_losses(const report::Report& report);

}  // namespace imka::app

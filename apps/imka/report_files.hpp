// What `imka report` and `imka reproduce` write from a report.
#pragma once

#include <cstddef>
#include <filesystem>

#include "imka/report/report.hpp"

namespace imka::app {

struct ReportFiles {
    std::filesystem::path page;      // HTML; none when empty
    std::filesystem::path figures;   // folder for SVG and PDF; none when empty
    std::filesystem::path csv;       // records as CSV; none when empty
    std::filesystem::path chart_js;  // the figure library
};

// Where Debian's libjs-chart.js puts the library, or where it was found when imka was built.
std::filesystem::path default_chart_js();

// Error{missing_part} that names the package where the library is not there.
void check_chart_js(const std::filesystem::path& path);

struct Written {
    std::size_t page_bytes = 0;
    std::size_t figures = 0;  // files
};
// Checks what is needed before anything is written. Error{missing_part} names the package.
Written write_report(const report::Report& report, const ReportFiles& files);

// Counts, what deviates, fidelity of a chip, warnings.
void print_summary(const report::Report& report);

// How far emulated chips are from the measured one, by data set and kernel. Error{bad_data} where no run can
// be compared.
void print_fidelity(const report::Report& report);

// What chips cost in accuracy against FP32, over data sets. Error{bad_data} where no run has both.
void print_losses(const report::Report& report);

}  // namespace imka::app

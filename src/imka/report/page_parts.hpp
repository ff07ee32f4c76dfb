// Parts of the page that page.cpp puts together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "imka/report/report.hpp"

namespace imka::report {

struct TableCell {
    std::string html;     // already escaped
    std::string sort;     // what it is sorted by; "" for its text
    bool number = false;  // aligned right
};
struct TableText {
    std::string caption;
    std::vector<std::string> head;
    std::vector<std::vector<TableCell>> rows;
};
// A table whose columns sort on a click.
std::string table_html(const TableText& table);

TableCell text_cell(std::string_view text);
TableCell number_cell(double value, const std::string& shown);
TableCell verdict_cell(Verdict verdict, std::string_view reason);
// A number on the colour of its verdict.
TableCell judged_cell(double value, int digits, Verdict verdict);
// "✓ 0.11" or "✗ 0.17": what was aimed at, and whether it was reached.
TableCell aim_cell(double value, const std::string& shown, bool met);
// "–"
TableCell no_cell();

// The scale and digits in which a quantity is shown: percent for accuracy.
struct Shown {
    double scale = 1.0;
    int digits = 4;
    std::string_view unit;  // of a difference
};
Shown shown(Quantity quantity);
// "96.14 ± 0.05"
std::string mean_text(double mean, double std, const Shown& as);
// "+0.12"
std::string signed_text(double value, int digits);
std::string ratio_text(double log_ratio);

// A card: title, drawing, legend, caption, published numbers beside ours, all values, how to repeat it.
std::string figure_html(const DrawnFigure& drawn);
// A drawing of the paper's own averages.
std::string plot_html(const Plot& plot, std::string_view caption);
// All curves of an experiment at a glance.
std::string overview_html(const Section& section);
// What the paper's main figure and text say, beside ours.
std::string paper_html(const Section& section);
// How far the emulated chips are from the measured one. "" where nothing can be compared.
std::string fidelity_html(const Section& section);

}  // namespace imka::report

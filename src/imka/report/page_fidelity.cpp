// The part of the page that sets an emulated chip against the measured one.
#include <fmt/format.h>

#include "imka/report/html.hpp"
#include "imka/report/page_parts.hpp"

namespace imka::report {
namespace {

std::string tile_html(const FidelityAim& aim) {
    const bool share = aim.noise == 0.0 && aim.quantity == "accuracy";
    const auto number = share ? fmt::format("{:.1f} %", 100.0 * aim.value) : fmt::format("{:.3f}", aim.value);
    const auto goal = share ? fmt::format("aim: at least {:.0f} % of cells", 100.0 * aim.aim)
                            : fmt::format("aim: at most {:.2f}; seeds alone give {:.3f}", aim.aim, aim.noise);
    return fmt::format(R"(<div class="tile {}"><b>{}</b><span>{}</span><small>{}; {}</small></div>)",
                       aim.met ? "good" : "bad", number, escape_html(aim.quantity), goal,
                       aim.met ? "met" : "not met");
}

std::vector<TableCell> row_cells(const FidelityScore& row) {
    return {
        text_cell(row.dataset),
        text_cell(row.kernel),
        number_cell(static_cast<double>(row.cells), fmt::format("{}", row.cells)),
        number_cell(row.rms, fmt::format("{:.3f}", row.rms)),
        number_cell(row.noise, fmt::format("{:.3f}", row.noise)),
        number_cell(row.excess(), fmt::format("{:.3f}", row.excess())),
        number_cell(row.bias, signed_text(row.bias, 3)),
        number_cell(row.accuracy_share(), fmt::format("{} of {}", row.accuracy_agrees, row.accuracy_cells))};
}

std::string rows_table(const Fidelity& f) {
    TableText table{
        .caption =
            "By data set and kernel: RMS of ln(emulated mean / measured mean) of the Gram error; the RMS "
            "that "
            "an exact emulation would show for these numbers of seeds; what is left without it; the mean; "
            "cells whose accuracy agrees within 2 combined standard errors or 0.5 points",
        .head = {"data set", "kernel", "cells", "RMS", "expected from seeds", "beyond", "mean",
                 "accuracy agrees"},
        .rows = {}};
    for (const auto* rows : {&f.rows, &f.totals}) {
        for (const auto& row : *rows) table.rows.push_back(row_cells(row));
    }
    return table_html(table);
}

std::vector<TableCell> cell_cells(const FidelityCell& c) {
    const auto error = shown(Quantity::gram_error);
    const auto percent = shown(Quantity::accuracy);
    std::vector<TableCell> cells = {
        text_cell(c.dataset),
        text_cell(c.kernel),
        text_cell(c.sampler),
        number_cell(c.log_ratio, ratio_text(c.log_ratio)),
        number_cell(static_cast<double>(c.m), fmt::format("{}", c.m)),
        number_cell(c.error.mean, mean_text(c.error.mean, c.error.error(), error)),
        number_cell(c.error_measured.mean, mean_text(c.error_measured.mean, c.error_measured.error(), error)),
        number_cell(c.residual(),
                    fmt::format("{} ± {:.3f}", signed_text(c.residual(), 3), c.residual_error()))};
    if (!c.accuracy || !c.accuracy_measured) {
        cells.insert(cells.end(), 3, no_cell());
        return cells;
    }
    cells.push_back(number_cell(c.accuracy->mean, mean_text(c.accuracy->mean, c.accuracy->error(), percent)));
    cells.push_back(number_cell(c.accuracy_measured->mean,
                                mean_text(c.accuracy_measured->mean, c.accuracy_measured->error(), percent)));
    cells.push_back(aim_cell(c.accuracy_difference(), signed_text(100.0 * c.accuracy_difference(), 2),
                             c.accuracy_agrees()));
    return cells;
}

std::string cells_table(const Fidelity& f) {
    TableText table{
        .caption = "All cells: means ± standard errors; accuracies in percent, their differences in points",
        .head = {"data set", "kernel", "sampler", "log2(m/d)", "m", "Gram error, emulated", "measured",
                 "ln ratio", "accuracy, emulated", "measured", "Δ"},
        .rows = {}};
    for (const auto& c : f.cells) table.rows.push_back(cell_cells(c));
    return fmt::format("<details><summary>All {} cells</summary>{}</details>", f.cells.size(),
                       table_html(table));
}

}  // namespace

std::string fidelity_html(const Section& section) {
    if (section.fidelity.empty()) return "";
    std::string out;
    for (const auto& f : section.fidelity) {
        if (section.fidelity.size() > 1) out += fmt::format("<h4>{}</h4>", escape_html(f.chip));
        out += R"(<div class="tiles">)";
        for (const auto& aim : f.aims) out += tile_html(aim);
        out += "</div>" + rows_table(f) + cells_table(f);
    }
    out += R"(<div class="grid">)";
    for (const auto& plot : section.fidelity_plots) {
        out += plot_html(
            plot,
            "Points are means over seeds; error bars are standard errors of the means. On the dotted "
            "line the emulation agrees with the measurement.");
    }
    return out + "</div>";
}

}  // namespace imka::report

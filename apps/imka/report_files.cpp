#include "report_files.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "gnuplot.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/experiment/record.hpp"
#include "imka/report/averages.hpp"
#include "imka/report/report.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kLargestLibrary = 4U << 20U;

std::vector<std::string> deviation_row(const report::Figure& f, const report::Curve& curve,
                                       const report::Point& p) {
    const double scale = f.quantity == Quantity::accuracy ? 100.0 : 1.0;
    return {f.experiment,
            f.dataset,
            f.kernel,
            curve.label(),
            fmt::format("{:.4g}", p.log_ratio),
            f.quantity == Quantity::accuracy ? "accuracy %" : "Gram error",
            fmt::format("{:.4f}", scale * p.ours.mean),
            fmt::format("{:.4f}", scale * p.published->value.mean),
            fmt::format("{:+.1f}", p.errors())};
}

std::vector<std::string> fidelity_row(const FidelityScore& row) {
    return {row.dataset,
            row.kernel,
            std::to_string(row.cells),
            fmt::format("{:.3f}", row.rms),
            fmt::format("{:.3f}", row.noise),
            fmt::format("{:.3f}", row.excess()),
            fmt::format("{:+.3f}", row.bias),
            fmt::format("{} of {}", row.accuracy_agrees, row.accuracy_cells)};
}

void print_aims(const report::Fidelity& f) {
    for (const auto& a : f.aims) {
        if (a.quantity == "accuracy") {
            print_out("  accuracy agrees in {:.1f} % of cells; target: at least {:.0f} %: {}\n",
                      100.0 * a.value, 100.0 * a.aim, a.met ? "met" : "not met");
        } else {
            print_out("  {}: RMS of ln(emulated / measured) {:.3f}; target: at most {:.2f}: {}\n", a.quantity,
                      a.value, a.aim, a.met ? "met" : "not met");
        }
    }
}

// First and last points of every curve.
void print_attention(const report::Section& section) {
    for (const auto& f : section.attention) {
        print_out("\n{}: {}\n\n", section.experiment, f.title);
        std::vector<std::vector<std::string>> rows = {
            {"curve", f.plot.x_label, "seeds", "median", "95 % interval"}};
        for (const auto& c : f.curves) {
            for (const auto* p : {&c.points.front(), &c.points.back()}) {
                rows.push_back({c.label, fmt::format("{:g}", p->x), std::to_string(p->n),
                                fmt::format("{:.3g}", p->value.median),
                                fmt::format("{:.3g} to {:.3g}", p->value.low, p->value.high)});
                if (c.points.size() == 1) break;
            }
        }
        print_out("{}", format_table(rows));
        for (const auto& text : f.notes) print_out("{}\n", text);
    }
}

std::string percent(double share) {
    return fmt::format("{:.2f}", 100.0 * share);
}

std::string percent(const std::optional<double>& share) {
    return share ? percent(*share) : "-";
}

std::string points(const std::optional<double>& difference) {
    return difference ? fmt::format("{:+.2f}", 100.0 * *difference) : "";
}

std::string minus_digital_text(const report::TaskCell& c) {
    if (!c.minus_digital) return "";
    const auto text = points(c.minus_digital->mean);
    return c.minus_digital->n > 1 ? fmt::format("{} ± {:.2f}", text, 100.0 * c.minus_digital->error()) : text;
}

std::vector<std::string> task_row(const std::string& model, const std::string& task,
                                  const report::TaskCell& c) {
    const bool spread = c.accuracy.n > 1;
    return {model,
            task,
            std::to_string(c.accuracy.n),
            percent(c.accuracy.mean),
            spread ? percent(c.accuracy.std) : "",
            spread ? percent(c.accuracy.error()) : "",
            percent(c.example_error()),
            percent(c.published),
            minus_digital_text(c),
            points(c.published_minus_digital)};
}

// Average over the tasks that have runs.
std::vector<std::string> average_row(const report::TaskRow& row) {
    const auto& a = *row.average;
    return {row.model, fmt::format("average of {}", a.tasks.size()),
            "",        percent(a.mean),
            "",        a.error > 0.0 ? percent(a.error) : "",
            "",        percent(a.published),
            "",        ""};
}

// Models that are only for reference.
void print_reference_rows(const report::TaskTable& table) {
    TextTable rows = {{"model, published %"}};
    for (const auto& task : table.tasks) rows[0].push_back(task);
    rows[0].emplace_back("average");
    for (const auto& row : table.rows) {
        if (!row.mode.empty()) continue;
        rows.push_back({row.model});
        for (const auto& c : row.cells) rows.back().push_back(percent(c.published));
        rows.back().push_back(percent(row.published_average));
    }
    if (rows.size() > 1) print_out("{}\n", format_table(rows));
}

void print_baseline(const report::TaskTable& table) {
    for (const auto& row : table.rows) {
        if (!row.average || !row.average->minus_baseline) continue;
        print_out("{}: average minus {} on {}: {} (published {})\n", row.model, table.baseline,
                  fmt::join(row.average->tasks, ", "), points(row.average->minus_baseline),
                  points(row.average->published_minus_baseline));
    }
}

std::string setting_text(const report::SettingCell& c) {
    return c.published == "-" ? c.imka : fmt::format("{}{} ({})", c.differs ? "* " : "", c.imka, c.published);
}

void print_settings(const report::Section& section) {
    for (const auto& table : section.settings) {
        print_out("\n{}: ours (published); * they differ\n{}\n\n", table.title, table.source);
        TextTable rows = {{"setting"}};
        rows[0].insert(rows[0].end(), table.tasks.begin(), table.tasks.end());
        TextTable reasons = {{"setting", "task", "imka", "published", "reason"}};
        for (const auto& row : table.rows) {
            rows.push_back({row.name});
            for (std::size_t t = 0; t < table.tasks.size(); ++t) {
                const auto& c = row.cells[t];
                rows.back().push_back(setting_text(c));
                if (c.differs) reasons.push_back({row.name, table.tasks[t], c.imka, c.published, c.reason});
            }
        }
        print_out("{}", format_table(rows));
        if (reasons.size() > 1) print_out("\n{}", format_table(reasons));
        for (const auto& text : table.notes) print_out("{}\n", text);
    }
}

// The last point of every curve.
void print_curves(const report::Section& section) {
    for (const auto& group : section.plots) {
        TextTable rows = {{"figure", "curve", "last", "value"}};
        for (const auto& plot : group.plots) {
            for (const auto& s : plot.series)
                rows.push_back({plot.title, s.label, fmt::format("{:g}", s.points.back().x),
                                fmt::format("{:.{}f}", s.points.back().y, plot.digits)});
        }
        print_out("\n{}: {}\n\n{}", section.experiment, group.title, format_table(rows));
    }
}

void print_tables(const report::Section& section) {
    for (const auto& table : section.tables) {
        print_out("\n{}: {}\n", section.experiment, table.title);
        print_out("{}{}\n", table.source, table.source.empty() ? "" : "\n");
        print_reference_rows(table);
        TextTable rows = {{"model", "task", "seeds", "imka %", "sd", "se of seeds", "se of examples",
                           "published %", "minus fp32", "published"}};
        for (const auto& row : table.rows) {
            for (std::size_t t = 0; t < table.tasks.size(); ++t) {
                if (row.cells[t].accuracy.n > 0)
                    rows.push_back(task_row(row.model, table.tasks[t], row.cells[t]));
            }
            if (row.average) rows.push_back(average_row(row));
        }
        print_out("{}", format_table(rows));
        print_out(
            "minus fp32: the digital run of the same model and seed subtracted, in points; ± standard "
            "error over seeds\n");
        print_baseline(table);
        for (const auto& text : table.notes) print_out("{}\n", text);
        for (const auto& text : table.missing) print_out("missing: {}\n", text);
    }
}

std::size_t figures_of(const report::Section& s) {
    auto count = s.figures.size() + s.attention.size() + s.tables.size() + s.settings.size();
    for (const auto& group : s.plots) count += group.plots.size();
    return count;
}

}  // namespace

std::filesystem::path default_chart_js() {
    return IMKA_CHART_JS;
}

void check_chart_js(const std::filesystem::path& path) {
    if (std::filesystem::is_regular_file(path)) return;
    fail(ErrorCode::missing_part,
         fmt::format(
             "{}: not found; the page needs Chart.js: apt-get install libjs-chart.js, or use --chart-js FILE",
             path.string()));
}

std::string read_chart_js(const std::filesystem::path& path) {
    check_chart_js(path);
    return read_file(path, kLargestLibrary);
}

Written write_report(const report::Report& report, const ReportFiles& files) {
    Written written;
    std::string page;
    if (!files.page.empty()) {
        page = report::render_page(report::report_json(report), read_chart_js(files.chart_js));
    }
    if (!files.figures.empty()) {
        std::filesystem::create_directories(files.figures);
        written.figures = draw_figures(report::all_plots(report), files.figures).size();
    }
    if (!files.csv.empty()) write_file_atomic(files.csv, to_csv(report.set.records));
    if (!files.page.empty()) {
        write_file_atomic(files.page, page);
        written.page_bytes = page.size();
    }
    return written;
}

void print_summary(const report::Report& report) {
    std::vector<std::vector<std::string>> rows = {
        {"experiment", "figures", "reproduced", "deviate", "missing", "not judged", "not published"}};
    for (const auto& s : report.sections) {
        rows.push_back({s.experiment, std::to_string(figures_of(s)), std::to_string(s.counts.reproduced),
                        std::to_string(s.counts.deviates), std::to_string(s.counts.missing),
                        std::to_string(s.counts.unlike), std::to_string(s.counts.unpublished)});
    }
    print_out("{}", format_table(rows));
    std::vector<std::vector<std::string>> deviating = {{"experiment", "data set", "kernel", "sampler", "r",
                                                        "quantity", "imka", "published", "difference / se"}};
    for (const auto& s : report.sections) {
        for (const auto& drawn : s.figures) {
            for (const auto& curve : drawn.figure.curves) {
                for (const auto& p : curve.points) {
                    if (p.verdict == report::Verdict::deviates)
                        deviating.push_back(deviation_row(drawn.figure, curve, p));
                }
            }
        }
    }
    if (deviating.size() > 1)
        print_out("\nBeyond 3 combined standard errors:\n\n{}", format_table(deviating));
    for (const auto& section : report.sections) {
        for (const auto& f : section.fidelity) {
            print_out("\n{}: {} against the measured chip:\n", section.experiment, f.chip);
            print_aims(f);
        }
    }
    for (const auto& section : report.sections) print_attention(section);
    for (const auto& section : report.sections) print_tables(section);
    for (const auto& section : report.sections) print_settings(section);
    for (const auto& section : report.sections) print_curves(section);
    for (const auto& flag : report.flags) {
        print_out("\nwarning: {}\n", flag.title);
        for (std::size_t i = 0; i < flag.details.size() && i < 5; ++i) print_out("  {}\n", flag.details[i]);
        if (flag.details.size() > 5) print_out("  and {} more\n", flag.details.size() - 5);
    }
}

void print_fidelity(const report::Report& report) {
    bool any = false;
    for (const auto& section : report.sections) {
        for (const auto& f : section.fidelity) {
            std::vector<std::vector<std::string>> rows = {{"data set", "kernel", "cells", "RMS of ln ratio",
                                                           "expected from seeds", "excess", "mean",
                                                           "accuracy agrees"}};
            for (const auto* part : {&f.rows, &f.totals}) {
                for (const auto& row : *part) rows.push_back(fidelity_row(row));
            }
            print_out("{}{}, {}:\n\n{}\n", any ? "\n" : "", section.experiment, f.chip, format_table(rows));
            print_aims(f);
            any = true;
        }
    }
    if (any) return;
    fail(ErrorCode::bad_data,
         "no run can be compared with the measured chip: expected runs on a chip with protocol measured and "
         "settings that have published values; 'imka reproduce fidelity' produces them");
}

void print_losses(const report::Report& report) {
    const auto losses = report::losses_of(report.set.records);
    if (losses.empty())
        fail(ErrorCode::bad_data,
             "no run on a chip has a matching run in FP32 (same data, split, kernel, sampler, size and "
             "seed); 'imka sweep mitigation' produces both");
    std::vector<std::vector<std::string>> rows = {{"experiment", "kernel", "sampler", "size", "chip",
                                                   "data sets", "pairs", "loss, points", "se", "largest",
                                                   "data set"}};
    for (const auto& l : losses) {
        rows.push_back({l.experiment, l.kernel, l.sampler, l.size, l.chip, std::to_string(l.datasets),
                        std::to_string(l.pairs), fmt::format("{:+.2f}", 100.0 * l.mean),
                        l.error > 0.0 ? fmt::format("{:.2f}", 100.0 * l.error) : "-",
                        fmt::format("{:+.2f}", 100.0 * l.most), l.worst});
    }
    print_out("{}", format_table(rows));
}

}  // namespace imka::app

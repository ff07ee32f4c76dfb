// imka report: turns records into one page, figures for papers, CSV.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/experiment/record.hpp"
#include "imka/report/report.hpp"
#include "report_files.hpp"

namespace imka::app {
namespace {

struct ReportArgs {
    std::vector<std::filesystem::path> paths;
    std::filesystem::path logs;
    std::string title;
    bool fidelity = false;
    bool losses = false;
    ReportFiles files{.page = {}, .figures = {}, .csv = {}, .chart_js = default_chart_js()};
};

void print_written(const ReportArgs& args, const Written& written) {
    if (!args.files.page.empty()) {
        print_out("\n{}: {:.1f} kB, opens offline in any browser\n", args.files.page.string(),
                  static_cast<double>(written.page_bytes) / 1e3);
    }
    if (!args.files.figures.empty())
        print_out("{}: {} files (SVG and PDF)\n", args.files.figures.string(), written.figures);
    if (!args.files.csv.empty()) print_out("{}: one row per run\n", args.files.csv.string());
}

void run(const ReportArgs& args, const Context& context) {
    const auto& f = args.files;
    if (args.paths.empty() && args.logs.empty())
        fail(ErrorCode::bad_usage, "expected folders or files of records, or --logs");
    if (f.page.empty() && f.figures.empty() && f.csv.empty() && !args.fidelity && !args.losses &&
        !context.json) {
        fail(ErrorCode::bad_usage,
             "nothing to do: use --output for a page, --figures for figures, --csv for a table, or "
             "--fidelity or --losses");
    }
    for (const auto& file : {f.page, f.csv}) check_folder(file);
    auto set = read_records(args.paths);
    if (set.records.empty() && !args.paths.empty()) {
        const auto why =
            set.problems.empty()
                ? std::string("a sweep writes them to its subfolder 'records' (*.jsonl)")
                : fmt::format("line {}: {}", set.problems.front().line, set.problems.front().what);
        fail(ErrorCode::bad_data, fmt::format("{}: no records; {}", args.paths.front().string(), why));
    }
    auto report = report::make_report(std::move(set), args.title);
    if (!args.logs.empty())
        report::add_learning_curves(report, "training", report::read_training_logs(args.logs));
    if (!f.page.empty()) report::add_heat_maps(report, context.exec);
    const auto written = write_report(report, f);
    if (context.json) {
        auto j = nlohmann::ordered_json::parse(report::report_json(report));
        j["page_bytes"] = written.page_bytes;
        j["figure_files"] = written.figures;
        print_out("{}\n", j.dump());
        return;
    }
    if (args.fidelity) print_fidelity(report);
    if (args.losses) print_losses(report);
    if (!args.fidelity && !args.losses) print_summary(report);
    print_written(args, written);
}

}  // namespace

void add_report(CLI::App& root, Context& context) {
    auto args = std::make_shared<ReportArgs>();
    auto* verb = add_verb(
        root, "report",
        "Turn the records of sweeps into one HTML page with figures, tables and the commands to repeat them",
        {"imka report runs/ridge_measured --output ridge.html",
         "imka report runs/liu runs/ridge_fp32 --output all.html --figures figures --csv all.csv",
         "imka report --logs models/logs --output curves.html", "imka report runs/fidelity --fidelity",
         "imka report runs/mitigation --losses"});
    add_common_options(*verb, context);
    verb->add_option("paths", args->paths, "Folders of sweeps, or files of records (*.jsonl)")
        ->check(CLI::ExistingPath)
        ->type_name("DIR|FILE");
    verb->add_option(
            "--logs", args->logs,
            "Learning curves of the training runs in this folder: files *.jsonl, or folders that 'imka "
            "train' wrote")
        ->check(CLI::ExistingDirectory)
        ->type_name("DIR");
    verb->add_option("-o,--output", args->files.page, "Write the page to this file (HTML, works offline)");
    verb->add_option("--figures", args->files.figures,
                     "Write every figure to this folder as SVG and PDF (needs gnuplot)");
    verb->add_option("--csv", args->files.csv, "Write all runs to this file as CSV, one row per run");
    verb->add_flag("--fidelity", args->fidelity,
                   "Compare emulated chips with the measured one, by data set and kernel");
    verb->add_flag(
        "--losses", args->losses,
        "Print the accuracy that chips lose against FP32, by kernel and settings, averaged over data "
        "sets");
    verb->add_option("--title", args->title, "Title of the page; default: from the names of the experiments");
    verb->add_option("--chart-js", args->files.chart_js, "Copy of Chart.js 3 to embed in the page")
        ->capture_default_str();
    verb->callback([args, verb, &context] {
        if (args->files.page.empty()) {
            reject_without_effect(*verb, {"--chart-js"}, "no page is written (--output)");
            if (!context.json) reject_without_effect(*verb, {"--title"}, "no page is written (--output)");
        }
        run(*args, context);
    });
}

}  // namespace imka::app

// imka reproduce: a figure or table of the paper: runs what is missing, then renders it beside the published
// numbers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/experiment/record.hpp"
#include "imka/experiment/sweep.hpp"
#include "imka/report/report.hpp"
#include "report_files.hpp"
#include "sweep_progress.hpp"

namespace imka::app {
namespace {

struct ReproduceArgs {
    std::string name;
    std::filesystem::path output = "runs";
    bool figures = false;
    std::filesystem::path chart_js = default_chart_js();
};

void list_reproductions(const Context& context) {
    std::vector<std::vector<std::string>> rows = {{"name", "runs", "what of the paper"}};
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& r : report::reproductions()) {
        const auto runs = count_runs(find_experiment(std::string(r.name)));
        rows.push_back({std::string(r.name), std::to_string(runs), std::string(r.what)});
        list.push_back({{"name", r.name}, {"title", r.title}, {"runs", runs}, {"what", r.what}});
    }
    if (context.json) {
        fmt::print("{}\n", nlohmann::ordered_json{{"reproductions", list}}.dump());
    } else {
        fmt::print("{}", format_table(rows));
    }
}

// All of them, or the one of that name.
std::vector<std::string> chosen(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& r : report::reproductions()) {
        if (name == "all" || name == r.name) names.emplace_back(r.name);
    }
    if (!names.empty()) return names;
    std::vector<std::string_view> known;
    for (const auto& r : report::reproductions()) known.push_back(r.name);
    fail(ErrorCode::bad_usage,
         fmt::format("reproduce: '{}' is not known; known: {}, all, list", name, fmt::join(known, ", ")));
}

std::map<std::string, Record> finished_runs(const std::filesystem::path& folder) {
    std::map<std::string, Record> runs;
    if (!std::filesystem::is_directory(folder)) return runs;
    for (auto& record : read_records(folder).records) {
        if (record.ok()) runs.try_emplace(record.key, record);
    }
    return runs;
}

// Runs that another reproduction in this folder has finished are copied into the records of this one.
void adopt_runs(const SweepPlan& plan, const std::filesystem::path& folder) {
    constexpr std::size_t kLargest = 1U << 30U;
    auto have = finished_runs(folder);
    std::string lines;
    for (const auto& other : report::reproductions()) {
        if (other.name == plan.experiment.name) continue;
        const auto runs = finished_runs(folder.parent_path() / other.name);
        for (const auto& planned : plan.runs) {
            const auto run = runs.find(planned.key);
            if (run == runs.end() || !have.try_emplace(planned.key, run->second).second) continue;
            auto record = run->second;
            record.experiment = plan.experiment.name;
            lines += to_json_line(record) + "\n";
        }
    }
    if (lines.empty()) return;
    const auto file = folder / "records" / "adopted.jsonl";
    std::filesystem::create_directories(file.parent_path());
    write_file_atomic(file, (std::filesystem::exists(file) ? read_file(file, kLargest) : "") + lines);
}

// Runs what is missing; failed runs are warnings of the page.
SweepSummary run_missing(const std::string& name, const std::filesystem::path& folder,
                         const Context& context) {
    SweepConfig config{.output = folder, .data_dir = context.data_dir};
    const auto plan = plan_sweep(find_experiment(name), context.data_dir, context.exec);
    adopt_runs(plan, folder);
    std::optional<SweepProgress> progress;
    if (context.exec.progress != nullptr) {
        progress.emplace();
        config.on_status = [&](const SweepStatus& status) { progress->show(status); };
    }
    return run_sweep(plan, config, context.exec);
}

void run(const ReproduceArgs& args, Context& context) {
    if (args.name == "list") {
        list_reproductions(context);
        return;
    }
    const auto names = chosen(args.name);
    // Before the work, not after it.
    check_chart_js(args.chart_js);
    std::vector<std::filesystem::path> folders;
    std::uint64_t failed = 0;
    for (const auto& name : names) {
        folders.push_back(args.output / name);
        const auto summary = run_missing(name, folders.back(), context);
        failed += summary.status.failed;
        if (!context.json) fmt::print("{}: {}\n", name, summary_text(summary));
    }
    const auto report = report::make_report(read_records(folders), "");
    const ReportFiles files{.page = args.output / (args.name + ".html"),
                            .figures = args.figures ? args.output / (args.name + "_figures") : "",
                            .csv = args.output / (args.name + ".csv"),
                            .chart_js = args.chart_js};
    const auto written = write_report(report, files);
    if (context.json) {
        auto j = nlohmann::ordered_json::parse(report::report_json(report));
        j["page"] = files.page.string();
        j["page_bytes"] = written.page_bytes;
        fmt::print("{}\n", j.dump());
    } else {
        print_summary(report);
        fmt::print("\npage     {}\nrecords  {}\n", files.page.string(), files.csv.string());
        if (args.figures) fmt::print("figures  {}\n", files.figures.string());
    }
    if (failed > 0) context.exit_code = 1;
}

}  // namespace

void add_reproduce(CLI::App& root, Context& context) {
    auto args = std::make_shared<ReproduceArgs>();
    auto* verb =
        add_verb(root, "reproduce",
                 "A figure of the paper: run what is missing, then render it beside the published numbers. "
                 "A stopped job goes on with the same command",
                 {"imka reproduce list", "imka reproduce ridge --data-dir data",
                  "imka reproduce all --data-dir data --output results --figures"});
    add_common_options(*verb, context);
    verb->add_option("name", args->name, "Name of a reproduction, 'all', or 'list' to see them")
        ->required()
        ->type_name("NAME|list|all");
    verb->add_option("--output", args->output,
                     "Folder: <name>/ for records, <name>.html for the page, <name>.csv")
        ->capture_default_str();
    verb->add_flag("--figures", args->figures, "Also every figure as SVG and PDF (needs gnuplot)");
    verb->add_option("--chart-js", args->chart_js, "Chart.js 3, which is written into the page")
        ->capture_default_str();
    verb->callback([args, &context] { run(*args, context); });
}

}  // namespace imka::app

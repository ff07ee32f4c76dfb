// imka reproduce: repeats a figure or table of the paper. Runs what is missing, then compares with the
// published numbers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/experiment/published.hpp"
#include "imka/experiment/record.hpp"
#include "imka/experiment/reproduce.hpp"
#include "imka/experiment/sweep.hpp"
#include "imka/report/report.hpp"
#include "report_files.hpp"
#include "run_options.hpp"
#include "sweep_progress.hpp"

namespace imka::app {
namespace {

struct ReproduceArgs {
    std::vector<std::string> names;
    std::filesystem::path output = "runs";
    bool figures = false;
    std::filesystem::path chart_js = default_chart_js();
    std::string seeds;                  // empty: the seeds of the experiments
    std::vector<std::string> datasets;  // empty: all
    std::vector<std::string> overrides;
    std::string models;  // empty: the folder of the experiments
    bool check = false;
    std::filesystem::path measured;
};

void list_reproductions(const Context& context) {
    std::vector<std::vector<std::string>> rows = {{"name", "runs", "part of the paper"}};
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& r : report::reproductions()) {
        const auto runs = r.runs ? count_runs(find_experiment(r.name)) : 0;
        rows.push_back({std::string(r.name), std::to_string(runs), std::string(r.what)});
        list.push_back({{"name", r.name}, {"title", r.title}, {"runs", runs}, {"what", r.what}});
    }
    if (context.json) {
        print_out("{}\n", nlohmann::ordered_json{{"reproductions", list}}.dump());
    } else {
        print_out("{}", format_table(rows));
    }
}

std::vector<std::string> chosen(const std::vector<std::string>& names) {
    std::vector<std::string> known;
    for (const auto& r : report::reproductions()) known.emplace_back(r.name);
    if (names == std::vector<std::string>{"all"}) return known;
    for (const auto& name : names) {
        if (std::ranges::find(known, name) == known.end())
            fail(ErrorCode::bad_usage,
                 fmt::format("reproduce: '{}' is not a known reproduction; known: {}, all, list", name,
                             fmt::join(known, ", ")));
    }
    return names;
}

bool uses_models(const report::Reproduction& r) {
    return !r.qkv_of.empty() || (r.runs && run_kind(find_experiment(r.name).kind).tests_models);
}

ReproduceConfig config_of(const ReproduceArgs& args, const Context& context) {
    return {.output = args.output,
            .data_dir = context.data_dir,
            .models = args.models,
            .seeds = args.seeds,
            .datasets = args.datasets,
            .changes = parse_assignments(args.overrides, "--set")};
}

// The folders of all reproductions.
std::vector<std::filesystem::path> all_folders(const std::filesystem::path& output) {
    std::vector<std::filesystem::path> folders;
    for (const auto& r : report::reproductions()) folders.push_back(output / r.name);
    return folders;
}

// Result of run_missing.
struct Reproduced {
    std::vector<std::filesystem::path> folders;
    std::set<std::string> keys;  // of the requested runs
    std::uint64_t failed = 0;
    std::vector<std::string> missing;                     // models and data that were not found
    std::vector<std::string> tables;                      // reproductions without runs
    std::map<std::string, std::set<std::string>> models;  // names of the checkpoints, by reproduction
};

void add_missing(const std::vector<std::string>& missing, Reproduced& done) {
    for (const auto& text : missing) {
        if (std::ranges::find(done.missing, text) == done.missing.end()) done.missing.push_back(text);
    }
}

Reproduced run_missing(const ReproduceArgs& args, const Context& context) {
    Reproduced done;
    const auto config = config_of(args, context);
    for (const auto& name : chosen(args.names)) {
        const auto& reproduction = *report::find_reproduction(name);
        if (!reproduction.runs) {
            done.tables.push_back(name);
            continue;
        }
        const auto plan = plan_reproduction(name, reproduction.qkv_of, config, context.exec);
        add_missing(plan.missing, done);
        if (plan.runs.empty()) continue;
        for (const auto& point : plan.points) {
            if (point.config.performer)
                done.models[name].insert(checkpoint_path(performer_source(point.config)).stem().string());
        }
        const auto& folder = done.folders.emplace_back(args.output / name);
        adopt_runs(plan, all_folders(args.output), folder);
        const auto summary = run_shown(plan, {.output = folder, .data_dir = context.data_dir}, context.exec);
        done.failed += summary.status.failed;
        for (const auto& run : plan.runs) done.keys.insert(run.key);
        if (!context.json) print_out("{}: {}\n", name, summary_text(summary));
    }
    if (!done.folders.empty() || !done.tables.empty()) return done;
    if (!done.missing.empty())
        fail(ErrorCode::missing_part,
             fmt::format("reproduce: nothing to run:\n  {}", fmt::join(done.missing, "\n  ")));
    fail(ErrorCode::bad_usage, "reproduce: no run uses these data sets");
}

void print_missing(const Reproduced& done) {
    if (done.missing.empty()) return;
    print_out("\nLeft out, because they are missing:\n");
    for (const auto& text : done.missing) print_out("  {}\n", text);
}

// Adds learning curves of the tested models that have logs.
void add_logs(const ReproduceArgs& args, const Reproduced& done, report::Report& report) {
    const auto folder = models_folder(args.models) / "logs";
    if (done.models.empty() || !std::filesystem::is_directory(folder)) return;
    const auto logs = report::read_training_logs(folder);
    for (const auto& entry : done.models) {
        auto own = logs;
        std::erase_if(own, [&](const auto& log) { return !entry.second.contains(log.name); });
        if (!own.empty()) report::add_learning_curves(report, entry.first, own);
    }
}

void add_tables(const Reproduced& done, const Context& context, report::Report& report) {
    for (const auto& name : done.tables)
        report::add_settings(report, name == "data" ? report::data_table(context.data_dir, context.exec)
                                                    : report::hyper_parameter_table());
}

void render(const ReproduceArgs& args, const Reproduced& done, const Context& context) {
    auto report = report::make_report(read_records(done.folders), "");
    report::add_heat_maps(report, context.exec);
    add_logs(args, done, report);
    add_tables(done, context, report);
    std::filesystem::create_directories(args.output);  // no run has created it if there are only tables
    const auto name = fmt::format("{}", fmt::join(args.names, "_"));
    const ReportFiles files{.page = args.output / (name + ".html"),
                            .figures = args.figures ? args.output / (name + "_figures") : "",
                            .csv = args.output / (name + ".csv"),
                            .chart_js = args.chart_js};
    const auto written = write_report(report, files);
    if (context.json) {
        auto j = nlohmann::ordered_json::parse(report::report_json(report));
        j["page"] = files.page.string();
        if (!done.missing.empty()) j["missing"] = done.missing;
        j["page_bytes"] = written.page_bytes;
        print_out("{}\n", j.dump());
        return;
    }
    print_summary(report);
    print_missing(done);
    print_out("\npage     {}\nrecords  {}\n", files.page.string(), files.csv.string());
    if (args.figures) print_out("figures  {}\n", files.figures.string());
}

// Reproduced cells per data set.
std::string counts_text(const report::Report& report) {
    struct Row {
        std::string experiment;
        std::string dataset;
        std::map<Quantity, report::Counts> counts;
    };
    std::vector<Row> rows;
    for (const auto& section : report.sections) {
        for (const auto& drawn : section.figures) {
            const auto& f = drawn.figure;
            if (rows.empty() || rows.back().experiment != f.experiment || rows.back().dataset != f.dataset)
                rows.push_back({.experiment = f.experiment, .dataset = f.dataset, .counts = {}});
            rows.back().counts[f.quantity].add(drawn.counts);
        }
    }
    const auto text = [](const report::Counts& c) {
        return fmt::format("{} of {}", c.reproduced, c.cells());
    };
    std::vector<std::vector<std::string>> table = {{"experiment", "data set", "Gram error", "accuracy"}};
    for (auto& row : rows)
        table.push_back({row.experiment, row.dataset, text(row.counts[Quantity::gram_error]),
                         text(row.counts[Quantity::accuracy])});
    return format_table(table);
}

// Exit code 1 if too few published cells are reproduced.
void check(const std::vector<Published>& published, const Reproduced& done, Context& context) {
    auto set = read_records(done.folders);
    std::erase_if(set.records, [&](const Record& r) { return !done.keys.contains(r.key); });
    const auto report = report::make_report(std::move(set), "", published);
    const auto& counts = report.counts;
    if (counts.cells() == 0)
        fail(ErrorCode::bad_usage,
             "reproduce --check: no published values for the protocol of these runs; try ridge_measured, liu "
             "or fidelity");
    if (context.json) {
        print_out("{}\n", report::report_json(report));
    } else {
        print_out("Cells whose mean is within 3 combined standard errors of the published one:\n\n{}\n",
                  counts_text(report));
        print_summary(report);
        print_out("\n{} of {} cells are reproduced ({:.1f} %; at least {:.0f} % are required)\n",
                  counts.reproduced, counts.cells(), 100.0 * counts.share(), 100.0 * report::kShareWanted);
    }
    if (counts.share() < report::kShareWanted) context.exit_code = 1;
}

std::string first_error(const Reproduced& done) {
    for (const auto& folder : done.folders) {
        for (const auto& record : read_records(folder).records) {
            if (!record.ok()) return record.error;
        }
    }
    return "no error was recorded";
}

void run_check(ReproduceArgs args, Context& context) {
    auto published = args.measured.empty() ? published_values() : read_published(args.measured);
    std::erase_if(published, [&](const Published& p) { return !is_chosen(args.datasets, p.dataset); });
    // Runs only what can be compared.
    for (const auto& p : published) args.datasets.push_back(p.dataset);
    const auto done = run_missing(args, context);
    if (done.failed > 0) context.exit_code = 1;
    if (done.failed == done.keys.size()) {
        print_error("imka: every run failed: {}\n", first_error(done));
        return;
    }
    check(published, done, context);
}

void check_models(const ReproduceArgs& args) {
    const auto names = chosen(args.names);
    const auto uses = [](const std::string& name) { return uses_models(*report::find_reproduction(name)); };
    if (!args.models.empty() && std::ranges::none_of(names, uses))
        fail(ErrorCode::bad_usage, fmt::format("--models has no effect: {} {} no trained models",
                                               fmt::join(names, ", "), names.size() == 1 ? "uses" : "use"));
}

void run(const ReproduceArgs& args, Context& context) {
    if (args.names == std::vector<std::string>{"list"}) return list_reproductions(context);
    check_models(args);
    require_device(context);
    if (args.check) return run_check(args, context);
    check_chart_js(args.chart_js);  // fail before the work
    const auto done = run_missing(args, context);
    render(args, done, context);
    if (done.failed > 0) context.exit_code = 1;
}

void add_run_options(CLI::App& verb, ReproduceArgs& args) {
    verb.add_option("--output", args.output,
                    "Output folder: records in <name>/, the page <name>.html, all runs in <name>.csv")
        ->capture_default_str();
    verb.add_option("--seeds", args.seeds, "Seeds to use instead of the experiment's, for example 0..4");
    verb.add_option("--datasets", args.datasets, "Run only these data sets, separated by commas")
        ->delimiter(',');
    verb.add_option("--set", args.overrides,
                    "Replace a setting of the experiments by a value or a list, e.g. --set samples=200")
        ->type_name("KEY=VALUE");
}

CLI::Option* add_measured_option(CLI::App& verb, ReproduceArgs& args) {
    return verb
        .add_option(
            "--measured", args.measured,
            "With --check: CSV of published results, one seed per row, used instead of the built-in means")
        ->check(CLI::ExistingFile);
}

}  // namespace

void add_reproduce(CLI::App& root, Context& context) {
    auto args = std::make_shared<ReproduceArgs>();
    auto* verb = add_verb(root, "reproduce",
                          "Repeat a figure or table of the paper: run what is missing, then compare with the "
                          "published numbers",
                          {"imka reproduce list", "imka reproduce ridge --data-dir data --device cuda",
                           "imka reproduce all --data-dir data --output results --figures",
                           "imka reproduce table1 --models models --data-dir data --set samples=200",
                           "imka reproduce hyper_parameters data --data-dir data",
                           "imka reproduce ridge_measured liu --check --data-dir data"},
                          "Run the same command again to resume.");
    add_common_options(*verb, context);
    verb->add_option("name", args->names, "Names of reproductions, 'all', or 'list' to see them")
        ->required()
        ->type_name("NAME|list|all");
    add_run_options(*verb, *args);
    verb->add_option("--models", args->models,
                     "Folder of trained models, with their logs in logs/; default: models")
        ->type_name("FOLDER");
    add_device_option(*verb, "Where runs compute, trained models run and chips are emulated", context);
    verb->add_flag("--figures", args->figures, "Also write every figure as SVG and PDF (needs gnuplot)");
    verb->add_option("--chart-js", args->chart_js, "Copy of Chart.js 3 to embed in the page")
        ->capture_default_str();
    verb->add_flag("--check", args->check,
                   "Compare cell by cell instead of writing a page; exit code 1 if fewer than 90 % of the "
                   "published cells are reproduced");
    add_measured_option(*verb, *args)->needs("--check");
    for (const auto* flag : {"--figures", "--chart-js"}) verb->get_option("--check")->excludes(flag);
    verb->callback([args, &context] { run(*args, context); });
}

void add_validate(CLI::App& root, Context& context) {
    auto args = std::make_shared<ReproduceArgs>();
    args->names = {"ridge_measured", "liu"};
    args->check = true;
    auto* verb = add_verb(root, "validate", "Former name of 'imka reproduce ridge_measured liu --check'", {});
    verb->group("");  // hidden
    add_common_options(*verb, context);
    add_run_options(*verb, *args);
    add_measured_option(*verb, *args)->required();
    verb->callback([args, &context] {
        note(context.exec,
             fmt::format("renamed; use: imka reproduce ridge_measured liu --check --measured {}",
                         args->measured.string()));
        run(*args, context);
    });
}

}  // namespace imka::app

// imka sweep: runs an experiment, resumes a stopped one, shares the work with other processes.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "app.hpp"
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/base/machine.hpp"
#include "imka/experiment/sweep.hpp"
#include "launch.hpp"
#include "run_options.hpp"
#include "sweep_progress.hpp"
#include "terminal.hpp"

namespace imka::app {
namespace {

struct SweepArgs {
    std::string experiment;
    std::filesystem::path output;
    std::vector<std::string> overrides;
    std::string at;
    bool list = false;
    bool dry_run = false;
    bool no_retry = false;
};

void list_experiments(const Context& context) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::vector<std::vector<std::string>> rows = {{"name", "runs", "title"}};
    for (const auto& known : known_experiments()) {
        const auto e = parse_experiment(known.text, std::string(known.name));
        const auto runs = count_runs(e);
        rows.push_back({e.name, std::to_string(runs), e.title});
        list.push_back(
            {{"name", e.name}, {"runs", runs}, {"title", e.title}, {"description", e.description}});
    }
    if (context.json) {
        print_out("{}\n", nlohmann::ordered_json{{"experiments", list}}.dump());
    } else {
        print_out("{}", format_table(rows));
    }
}

Experiment experiment_of(const SweepArgs& args) {
    auto experiment = find_experiment(args.experiment);
    for (const auto& [key, value] : parse_assignments(args.overrides, "--set"))
        override_setting(experiment, key, value);
    if (!args.at.empty())
        override_setting(experiment, "read_seconds", fmt::format("{}", parse_duration(args.at, "--at")));
    return experiment;
}

void print_forecast(const SweepPlan& plan, const SweepConfig& config, const Context& context) {
    const auto f = forecast_sweep(plan, config, context.exec);
    if (context.json) {
        const nlohmann::ordered_json j = {{"experiment", plan.experiment.name},
                                          {"output", config.output.string()},
                                          {"runs", f.runs},
                                          {"done", f.done},
                                          {"failed", f.failed},
                                          {"to_do", f.to_do},
                                          {"seconds", f.seconds},
                                          {"seconds_from_records", f.from_records},
                                          {"disk_bytes", f.disk_bytes}};
        print_out("{}\n", j.dump());
        return;
    }
    print_out("{}: {} runs on {} data sets in {}\n", plan.experiment.name, f.runs, plan.data.size(),
              config.output.string());
    print_out("already done     {}\n", f.done);
    if (f.failed > 0)
        print_out("failed before    {}{}\n", f.failed, config.retry_failed ? " (will be retried)" : "");
    print_out("to do            {}\n", f.to_do);
    print_out("estimated time   {} on {} threads ({})\n", clock_text(f.seconds), thread_count(context.exec),
              f.from_records ? "from the times of finished runs" : "from a quick measurement");
    print_out("disk             {:.1f} MB of records\n", f.disk_bytes * 1e-6);
}

void run(const SweepArgs& args, Context& context) {
    if (args.list || args.experiment == "list") {
        list_experiments(context);
        return;
    }
    if (args.experiment.empty())
        fail(ErrorCode::bad_usage,
             "expected the name of an experiment or a file; 'imka sweep list' shows the experiments");
    const auto launch = current_launch();
    Exec exec = context.exec;
    if (exec.threads == 0) exec.threads = threads_per_process(launch);
    exec.device = device_of_process(launch, context);
    SweepConfig config{.output = args.output,
                       .data_dir = context.data_dir,
                       .retry_failed = !args.no_retry,
                       .wait = launch.rank == 0};
    if (launch.local_size > 1) config.memory_bytes = 0.7 * physical_memory_bytes() / launch.local_size;
    const auto experiment = experiment_of(args);
    if (config.output.empty()) config.output = std::filesystem::path("runs") / experiment.name;
    const auto plan = plan_sweep(experiment, context.data_dir, exec);
    for (const auto& missing : plan.missing) note(exec, fmt::format("left out: {}", missing));
    if (plan.runs.empty() && !plan.missing.empty())
        fail(ErrorCode::missing_part, "no run has its model and its data");
    if (args.dry_run) {
        if (launch.rank == 0) print_forecast(plan, config, context);
        return;
    }
    if (launch.rank != 0) exec.progress = nullptr;
    const auto summary = run_shown(plan, config, exec);
    if (launch.rank != 0) return;
    if (context.json) {
        print_out("{}\n", summary_json(experiment, config.output.string(), summary));
    } else {
        print_out("{}: {}", experiment.name, summary_text(summary));
        print_out("\nrecords in {}\n", (config.output / "records").string());
    }
    if (summary.status.failed > 0) context.exit_code = 1;
}

}  // namespace

void add_sweep(CLI::App& root, Context& context) {
    auto args = std::make_shared<SweepArgs>();
    auto* verb =
        add_verb(root, "sweep", "Run an experiment: many settings and seeds, on all cores; resumable",
                 {"imka sweep smoke", "imka sweep ridge_fp32 --data-dir data --dry-run",
                  "imka sweep ridge --data-dir data --device cuda",
                  "imka sweep my.yaml --set dataset=letter --set log_ratio=[1,2] --output runs/letter",
                  "mpirun -n 4 imka sweep ridge_fp32 --data-dir data"},
                 "Run the same command again to resume a stopped sweep. Several processes can share one "
                 "folder.\nExit code 1: some runs failed. Their errors are recorded, and the next start "
                 "retries them.");
    add_common_options(*verb, context);
    add_device_option(*verb,
                      "Where the runs compute. Runs of ridge, gram and attention share a GPU; with mpirun "
                      "each process takes "
                      "the next GPU",
                      context);
    verb->add_option("experiment", args->experiment,
                     "Name of an experiment ('list' shows them), or a YAML file")
        ->type_name("NAME|FILE");
    verb->add_option("--output", args->output, "Output folder for records; default: runs/<name>");
    verb->add_option("--set", args->overrides,
                     "Replace a setting of the experiment by a value or a list, e.g. --set seeds=0..2")
        ->type_name("KEY=VALUE");
    verb->add_option("--at", args->at, "Time since programming at which chips are read: 90, 1h, 1d")
        ->type_name("TIME");
    verb->add_flag("--dry-run", args->dry_run,
                   "Only print the number of runs, the estimated time and the disk space");
    verb->add_flag("--no-retry", args->no_retry, "Do not retry runs that failed in an earlier start");
    verb->add_flag("--list", args->list, "List the known experiments");
    verb->callback([args, &context] { run(*args, context); });
}

}  // namespace imka::app

// imka chip explain: how much of the error each non-ideality causes alone, and how much its removal saves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "chip/options.hpp"
#include "gnuplot.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/deploy/error_causes.hpp"
#include "imka/experiment/explain.hpp"
#include "run_options.hpp"

namespace imka::app {
namespace {

struct ExplainArgs {
    TrialArgs trial;
    RunArgs gram;
    Assignments chip_given;  // chip settings that need --dataset
    TimeArgs time{.at = "1h"};
    AgeCompensation compensation = AgeCompensation::global;
    std::filesystem::path figure;
};

constexpr double kVisible = 1e-3;  // share of the squared error

report::Plot make_chart(const std::string& title, const std::vector<ErrorCause>& rows) {
    report::Plot chart{.title = title,
                       .y_label = "share of the squared error (%)",
                       .series = {{.label = "alone"}, {.label = "saved by removal"}},
                       .bars = true};
    for (const auto& row : rows) {
        // Invisibly small bars would only shrink the others.
        if (std::max(std::abs(row.alone.mean), std::abs(row.saved.mean)) < kVisible) continue;
        const auto place = static_cast<double>(chart.ticks.size());
        chart.ticks.push_back({.at = place, .name = std::string(row.item->name)});
        for (std::size_t s = 0; s < 2; ++s) {
            const auto& summary = s == 0 ? row.alone : row.saved;
            chart.series[s].points.push_back(
                {.x = place, .y = 100.0 * summary.mean, .error = 100.0 * summary.half_width});
        }
    }
    return chart;
}

Json result_json(const std::vector<ErrorCause>& rows, bool shares) {
    Json list = Json::array();
    for (const auto& r : rows)
        list.push_back({{"name", r.item->name},
                        {"help", r.item->help},
                        {"alone_error", summary_json(r.alone_error)},
                        {"alone_share", shares ? summary_json(r.alone) : Json()},
                        {"saved_share", shares ? summary_json(r.saved) : Json()}});
    return list;
}

void print_rows(const std::vector<ErrorCause>& rows, std::size_t seeds) {
    TextTable table = {{"non-ideality", "error alone %", "alone², share %", "removal saves, share %", ""}};
    double alone = 0.0;
    double saved = 0.0;
    for (const auto& r : rows) {
        table.push_back({std::string(r.item->name), fmt::format("{:.3g}", 100.0 * r.alone_error.mean),
                         mean_text(r.alone, 100.0), mean_text(r.saved, 100.0), std::string(r.item->help)});
        alone += r.alone.mean;
        saved += r.saved.mean;
    }
    table.push_back(
        {"sum", "", fmt::format("{:.1f}", 100.0 * alone), fmt::format("{:.1f}", 100.0 * saved), ""});
    print_out("{}", format_table(table));
    print_out("\nShares of the squared error{}. The sums differ from 100 where non-idealities interact.\n",
              seeds > 1 ? ", ± half of the 95 % interval over chips" : "");
}

void print_errors_alone(const std::vector<ErrorCause>& rows) {
    TextTable table = {{"non-ideality", "error alone %", ""}};
    for (const auto& r : rows)
        table.push_back(
            {std::string(r.item->name), mean_text(r.alone_error, 100.0), std::string(r.item->help)});
    print_out("{}", format_table(table));
    print_out(
        "\nThe error is not distinguishable from that of an ideal chip, so it has no meaningful shares.\n"
        "More seeds, more features or another time since programming may show a difference.\n");
}

std::vector<std::string> absent_names(const ChipSettings& settings) {
    std::vector<std::string> names;
    for (const auto& n : nonidealities()) {
        if (!n.present(settings)) names.emplace_back(n.name);
    }
    return names;
}

// The explained error and its chips.
struct Outcome {
    ChipSettings settings;
    AgedRead read;
    std::string what;
    std::string where;
    ErrorAttribution attribution;
};

void show(const ExplainArgs& args, const Context& context, const Outcome& o) {
    const auto rows = by_saving(summarize_causes(o.attribution));
    const auto full = root_error(o.attribution.errors, &CaseErrors::full);
    const auto none = root_error(o.attribution.errors, &CaseErrors::none);
    const bool shares = is_above_ideal(o.attribution.errors);
    if (!shares && !args.figure.empty())
        fail(ErrorCode::numeric,
             "the error is not distinguishable from that of an ideal chip: nothing to draw");
    const auto chart = make_chart(fmt::format("{}: causes of the {}", o.settings.spec.name, o.what), rows);
    if (!args.figure.empty()) draw_file(chart, args.figure);
    const auto& seeds = args.trial.chip.seeds;
    if (context.json) {
        return print_json({{"chip", o.settings.spec.name},
                           {"chip_hash", chip_hash(o.settings.spec)},
                           {"error", o.what},
                           {"seconds", o.read.time.seconds},
                           {"compensation", to_string(args.compensation)},
                           {"seeds", seeds},
                           {"full_error", summary_json(full)},
                           {"error_without_all", summary_json(none)},
                           {"distinguishable_from_ideal", shares},
                           {"nonidealities", result_json(rows, shares)},
                           {"absent", absent_names(o.settings)}});
    }
    print_out("{}\n{} after programming, {} compensation, {}\n", o.where, args.time.at,
              to_string(args.compensation), count_text(seeds.size(), "chip", "chips"));
    print_out("{}: {} %; without any non-ideality {} %\n\n", o.what, mean_text(full, 100.0),
              mean_text(none, 100.0));
    if (shares)
        print_rows(rows, seeds.size());
    else
        print_errors_alone(rows);
    print_out("Not in this chip: {}\n", fmt::join(absent_names(o.settings), ", "));
    if (shares) print_out("\n{}", report::draw_text(chart));
    print_figure_note(args.figure);
}

Outcome explain_products(const ExplainArgs& args, const AgedRead& read, const Context& context) {
    const auto trials = make_trials(args.trial);
    return {.settings = trials.build.settings,
            .read = read,
            .what = "relative error of products",
            .where = fmt::format("{}\n{}, {} products", chip_line(trials),
                                 problem_text(args.trial.problem, trials), trials.source.config.count),
            .attribution = attribute_product_error(trials, read, context.exec)};
}

// Settings of the run whose chip is explained, from the options for chips, times and calibration.
void set_chip_run(const ExplainArgs& args, const AgedRead& read, RunConfig& config) {
    config.backend.name = args.trial.chip.chip;
    config.chip.chip_set = args.trial.chip.chip_set;
    auto& build = config.chip.projection;
    // `auto` means max and lets input_alpha override it, so max stays auto.
    if (args.trial.problem.input_range != InputRangeRule::max)
        build.input_range = args.trial.problem.input_range;
    build.calibration_inputs = static_cast<std::int64_t>(args.trial.problem.config.calibration_count);
    build.read_seconds = read.time.seconds;
    build.read_spacing = read.time.spacing_seconds;
    build.compensation = args.compensation;
}

Outcome explain_gram(ExplainArgs& args, const AgedRead& read, const Context& context) {
    auto& config = args.gram.config;
    set_chip_run(args, read, config);
    args.gram.given.insert(args.gram.given.end(), args.chip_given.begin(), args.chip_given.end());
    finish_run_args(args.gram);
    config.seeds = args.trial.chip.seeds;
    const auto data = load_dataset(config.dataset, load_options(config, context.data_dir), context.exec);
    const auto sizes = run_sizes(config, static_cast<std::int64_t>(data.train.x.cols()));
    const auto settings = chip_settings(config);
    return {
        .settings = settings,
        .read = read,
        .what = "Gram error",
        .where = fmt::format(
            "{}\n{}, {} kernel by {}, Gram matrix of {} test rows",
            chip_line(settings.spec, static_cast<std::size_t>(sizes.d), static_cast<std::size_t>(sizes.m)),
            data.name, to_string(config.features.kernel), to_string(config.features.sampler),
            std::min(data.test.x.rows(), static_cast<std::size_t>(config.gram_rows))),
        .attribution = attribute_gram_error(config, data, context.exec)};
}

void run_explain(ExplainArgs& args, const Context& context) {
    check_figure(args.figure);
    const AgedRead read{.time = read_time(args.time), .compensation = args.compensation};
    const bool gram = !args.gram.given.empty();
    if (!gram && !args.chip_given.empty())
        fail(ErrorCode::bad_usage,
             fmt::format("setting {} needs a data set: add --dataset", args.chip_given.front().first));
    if (gram)
        reject_without_effect(
            *args.trial.problem.verb,
            {"--weights", "--weight-sigmas", "--input-law", "--sparsity", "--rows", "--cols", "--inputs"},
            "with --dataset the matrix and its inputs are those of the features");
    show(args, context, gram ? explain_gram(args, read, context) : explain_products(args, read, context));
}

}  // namespace

void add_chip_explain(CLI::App& chip, Context& context) {
    auto args = std::make_shared<ExplainArgs>();
    args->gram.config.gram_rows = 500;
    auto* verb =
        add_verb(chip, "explain", "Show how much of the error each non-ideality causes",
                 {"imka chip explain --at 1d --figure causes.svg",
                  "imka chip explain --weights w.npy --input-law x.npy --seed 0",
                  "imka chip explain --dataset ringnorm --kernel rbf --log-ratio 4 --seeds 0..2 --json"});
    add_common_options(*verb, context);
    add_own_chip_options(*verb, args->trial.chip);
    add_seed_options(*verb, args->trial.chip);
    add_problem_options(*verb, args->trial.problem);
    add_time_options(*verb, args->time);
    add_enum_option(*verb, "--compensation", args->compensation, "Drift compensation");
    add_figure_option(*verb, args->figure);
    const std::vector<std::string> run_names = {"dataset", "protocol",   "split_seed",   "gram_rows",
                                                "kernel",  "gamma",      "sampler",      "norms",
                                                "form",    "truncation", "n_components", "log_ratio"};
    const std::vector<std::string> chip_names = {"chip_seed",     "input_alpha", "output_calibration",
                                                 "range_scaling", "lost_rows",   "replicas",
                                                 "replication"};
    add_field_options(*verb, fields(args->gram.config), run_names, args->gram.given);
    add_field_options(*verb, fields(args->gram.config), chip_names, args->chip_given);
    for (const auto& names : {run_names, chip_names}) {
        for (auto name : names) {
            std::ranges::replace(name, '_', '-');
            verb->get_option("--" + name)
                ->group("Instead of products: the Gram error of features of a data set");
        }
    }
    verb->callback([args, &context] { run_explain(*args, context); });
}

}  // namespace imka::app

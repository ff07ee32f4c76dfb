// imka chip age: error of products against the time since programming, for every drift compensation.
#include <fmt/format.h>

#include <memory>

#include "chip/options.hpp"
#include "gnuplot.hpp"
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/analyse/compare.hpp"

namespace imka::app {
namespace {

struct AgeArgs {
    TrialArgs trial;
    std::vector<std::string> times = {"1min", "10min", "1h", "6h", "1d", "7d", "30d", "180d", "1y"};
    TimeArgs time;  // the spacing of the products
    std::filesystem::path figure;
};

std::vector<double> parse_times(const AgeArgs& args) {
    std::vector<double> times;
    for (const auto& text : args.times) {
        const double seconds = parse_duration(text, "--times");
        if (!(seconds > (times.empty() ? 0.0 : times.back())))
            fail(ErrorCode::bad_usage,
                 fmt::format("--times {}: times must be greater than 0 and increasing", text));
        times.push_back(seconds);
    }
    return times;
}

report::Plot make_figure(const std::string& name, const std::vector<double>& times,
                         const std::vector<AgedErrors>& errors) {
    report::Plot figure{.title = fmt::format("{}: error of products after programming", name),
                        .x_label = "time since programming",
                        .y_label = "relative error of products (%)",
                        .x_axis = report::XAxis::seconds,
                        .log_x = true,
                        .from_zero = true};
    for (std::size_t k = 0; k < kAgeCompensations.size(); ++k) {
        report::Series series{.label = std::string(to_string(kAgeCompensations[k]))};
        if (kAgeCompensations[k] == AgeCompensation::none) series.label = "no compensation";
        if (kAgeCompensations[k] == AgeCompensation::outputs) series.label = "outputs recalibrated";
        for (std::size_t t = 0; t < times.size(); ++t) {
            const auto s = summarize(errors[t][k]);
            series.points.push_back({.x = times[t], .y = 100.0 * s.mean, .error = 100.0 * s.half_width});
        }
        figure.series.push_back(std::move(series));
    }
    return figure;
}

Json result_json(const std::vector<double>& times, const std::vector<AgedErrors>& errors) {
    Json list = Json::array();
    for (std::size_t t = 0; t < times.size(); ++t) {
        Json row = {{"seconds", times[t]}};
        for (std::size_t k = 0; k < kAgeCompensations.size(); ++k)
            row[std::string(to_string(kAgeCompensations[k]))] = summary_json(summarize(errors[t][k]));
        list.push_back(std::move(row));
    }
    return list;
}

void print_table(const std::vector<double>& times, const std::vector<AgedErrors>& errors) {
    TextTable table = {{"time"}};
    for (const auto kind : kAgeCompensations) table[0].push_back(fmt::format("{} %", to_string(kind)));
    for (std::size_t t = 0; t < times.size(); ++t) {
        std::vector<std::string> row = {duration_text(times[t])};
        for (const auto& values : errors[t]) row.push_back(mean_text(summarize(values), 100.0));
        table.push_back(std::move(row));
    }
    print_out("{}\n", format_table(table));
}

void run_age(const AgeArgs& args, const Context& context) {
    check_figure(args.figure);
    const AgeingConfig config{.seconds = parse_times(args),
                              .spacing_seconds = read_time(args.time).spacing_seconds};
    const auto trials = make_trials(args.trial);
    const auto errors = measure_ageing(trials, config, context.exec);
    const auto figure = make_figure(trials.build.settings.spec.name, config.seconds, errors);
    if (!args.figure.empty()) draw_file(figure, args.figure);
    if (context.json) {
        auto json = chip_json(trials);
        json.update({{"inputs", trials.source.config.count},
                     {"programming", to_string(trials.build.programming.method)},
                     {"seeds", trials.seeds},
                     {"times", result_json(config.seconds, errors)}});
        return print_json(json);
    }
    print_out("{}\n{}; {} products for each of {}; outputs were calibrated after programming\n\n",
              chip_line(trials), problem_text(args.trial.problem, trials), trials.source.config.count,
              seeds_text(trials));
    print_table(config.seconds, errors);
    print_out("{}", report::draw_text(figure));
    print_figure_note(args.figure);
}

}  // namespace

void add_chip_age(CLI::App& chip, Context& context) {
    auto args = std::make_shared<AgeArgs>();
    auto* verb =
        add_verb(chip, "age", "Measure the error of products against time, for every drift compensation",
                 {"imka chip age --figure age.svg",
                  "imka chip age --backend hermes-od --times 1h,1d,30d --seeds 0..9 --json"});
    add_common_options(*verb, context);
    add_own_chip_options(*verb, args->trial.chip);
    add_seed_options(*verb, args->trial.chip);
    add_problem_options(*verb, args->trial.problem);
    add_programming_option(*verb, args->trial.build);
    verb->add_option("--times", args->times,
                     "Times since programming, separated by commas: 90,30min,1h,7d,1y")
        ->delimiter(',')
        ->type_name("LIST")
        ->default_str("1min,10min,1h,6h,1d,7d,30d,180d,1y");
    add_spacing_option(*verb, args->time);
    add_figure_option(*verb, args->figure);
    add_load_option(*verb, args->trial.load);
    verb->callback([args, &context] { run_age(*args, context); });
}

}  // namespace imka::app

// imka chip age: error of products against the time since programming, for every way to compensate drift.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "chip/commands.hpp"
#include "chip/measure.hpp"
#include "chip/options.hpp"
#include "gnuplot.hpp"
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/spec/chip_fields.hpp"

namespace imka::app {
namespace {

constexpr std::array kKinds = {AgeCompensation::none, AgeCompensation::global, AgeCompensation::column,
                               AgeCompensation::outputs};

struct Args {
    ChipArgs chip{.seeds = {0, 1, 2, 3, 4}};
    ProblemArgs problem;
    BuildPlan plan;
    std::vector<std::string> times = {"1min", "10min", "1h", "6h", "1d", "7d", "30d", "180d", "1y"};
    std::string spacing = "0.001";
    std::filesystem::path figure;
    std::filesystem::path load;
};

std::vector<double> parse_times(const Args& args) {
    std::vector<double> times;
    for (const auto& text : args.times) {
        const double seconds = parse_duration(text, "--times");
        if (!(seconds > (times.empty() ? 0.0 : times.back())))
            fail(ErrorCode::bad_usage, fmt::format("--times {}: times rise, from above 0", text));
        times.push_back(seconds);
    }
    return times;
}

// errors[time][kind][seed]
using Errors = std::vector<std::array<std::vector<double>, kKinds.size()>>;

// The chip of one seed, fresh from programming (or from its file).
using MakeChip = std::function<ChipMatrix(const Problem& problem, std::uint64_t seed, const Exec& exec)>;

Errors run_seeds(const Args& args, const MakeChip& make_chip, const ProblemSource& source,
                 const std::vector<double>& times, const Exec& exec) {
    Errors errors(times.size());
    const double spacing = parse_duration(args.spacing, "--spacing");
    Progress progress(exec, "ageing chips", args.chip.seeds.size() * times.size());
    Exec quiet = exec;
    quiet.progress = nullptr;
    std::uint64_t done = 0;
    for (const auto seed : args.chip.seeds) {
        const auto problem = source.draw(seed);
        const auto exact = exact_products(problem.inputs.view(), problem.weights.view());
        const MeasurePlan plan{
            .inputs = problem.inputs.view(), .exact = exact.view(), .seed = product_seed(seed)};
        auto young = make_chip(problem, seed, quiet);
        for (std::size_t t = 0; t < times.size(); ++t) {
            check_cancelled(exec);
            age(young, {.seconds = times[t], .spacing_seconds = spacing});
            for (std::size_t k = 0; k < kKinds.size(); ++k) {
                auto chip = young;
                compensate_by(chip, kKinds[k], quiet);
                errors[t][k].push_back(measure_error(chip, plan, quiet));
            }
            progress.update(++done);
        }
    }
    return errors;
}

report::Plot make_figure(const std::string& name, const std::vector<double>& times, const Errors& errors) {
    report::Plot figure{.title = fmt::format("{}: error of products after programming", name),
                        .x_label = "time since programming",
                        .y_label = "relative error of products (%)",
                        .series = {},
                        .x_axis = report::XAxis::seconds,
                        .log_x = true,
                        .from_zero = true};
    for (std::size_t k = 0; k < kKinds.size(); ++k) {
        report::Series series{.label = std::string(to_string(kKinds[k])), .points = {}};
        if (kKinds[k] == AgeCompensation::none) series.label = "no compensation";
        if (kKinds[k] == AgeCompensation::outputs) series.label = "outputs calibrated again";
        for (std::size_t t = 0; t < times.size(); ++t) {
            const auto s = summarize(errors[t][k]);
            series.points.push_back({.x = times[t], .y = 100.0 * s.mean, .error = 100.0 * s.half_width});
        }
        figure.series.push_back(std::move(series));
    }
    return figure;
}

Json result_json(const std::vector<double>& times, const Errors& errors) {
    Json list = Json::array();
    for (std::size_t t = 0; t < times.size(); ++t) {
        Json row = {{"seconds", times[t]}};
        for (std::size_t k = 0; k < kKinds.size(); ++k)
            row[std::string(to_string(kKinds[k]))] = summary_json(summarize(errors[t][k]));
        list.push_back(std::move(row));
    }
    return list;
}

void print_table(const std::vector<double>& times, const Errors& errors) {
    TextTable table = {{"time"}};
    for (const auto kind : kKinds) table[0].push_back(fmt::format("{} %", to_string(kind)));
    for (std::size_t t = 0; t < times.size(); ++t) {
        std::vector<std::string> row = {duration_text(times[t])};
        for (const auto& values : errors[t]) row.push_back(mean_text(summarize(values), 100.0));
        table.push_back(std::move(row));
    }
    fmt::print("{}\n", format_table(table));
}

void run(const Args& args, const Context& context) {
    check_figure(args.figure);
    const auto times = parse_times(args);
    std::optional<ChipMatrix> loaded;
    if (!args.load.empty()) loaded = load_programmed(args.load);
    const auto spec = loaded ? loaded->spec : load_spec(args.chip);
    const auto source = loaded ? ProblemSource(args.problem, loaded->weights) : ProblemSource(args.problem);
    if (!loaded) check_fits_chip(spec, source);
    const auto settings = make_settings(spec, args.problem);
    const auto make_chip = [&](const Problem& problem, std::uint64_t seed, const Exec& exec) {
        return loaded ? *loaded : build_chip(settings, problem, args.plan, seed, exec);
    };
    const auto errors = run_seeds(args, make_chip, source, times, context.exec);
    const auto figure = make_figure(spec.name, times, errors);
    if (!args.figure.empty()) draw_file(figure, args.figure);
    if (context.json) {
        return print_json({{"chip", spec.name},
                           {"chip_hash", chip_hash(spec)},
                           {"rows", source.rows()},
                           {"cols", source.cols()},
                           {"inputs", source.count()},
                           {"programming", to_string(args.plan.programming.method)},
                           {"seeds", args.chip.seeds},
                           {"times", result_json(times, errors)}});
    }
    fmt::print("{}\n{}; {} products for each of {} seed{}; outputs were calibrated after programming\n\n",
               chip_line(spec, source.rows(), source.cols()), source.description(), source.count(),
               args.chip.seeds.size(), args.chip.seeds.size() == 1 ? "" : "s");
    print_table(times, errors);
    fmt::print("{}", report::draw_text(figure));
    if (!args.figure.empty()) fmt::print("\n{} written\n", args.figure.string());
}

}  // namespace

void add_chip_age(CLI::App& chip, Context& context) {
    auto args = std::make_shared<Args>();
    auto* verb = add_verb(chip, "age", "Error of products against time, for every compensation of drift",
                          {"imka chip age --figure age.svg",
                           "imka chip age --chip hermes-od --times 1h,1d,30d --seeds 0..9 --json"});
    add_common_options(*verb, context);
    add_chip_options(*verb, args->chip);
    add_seed_options(*verb, args->chip);
    add_problem_options(*verb, args->problem);
    add_enum_option(*verb, "--programming", args->plan.programming.method, "How devices are written");
    verb->add_option("--times", args->times,
                     "Times since programming, separated by commas: 90,30min,1h,7d,1y")
        ->delimiter(',')
        ->type_name("LIST")
        ->default_str("1min,10min,1h,6h,1d,7d,30d,180d,1y");
    verb->add_option("--spacing", args->spacing, "Time between two products")->capture_default_str();
    verb->add_option("--figure", args->figure, "Draw it: FILE.svg, .pdf or .png (needs gnuplot)");
    add_load_option(*verb, args->load);
    verb->callback([args, &context] { run(*args, context); });
}

}  // namespace imka::app

// imka chip program: error and cost of each programming method.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <optional>

#include "chip/options.hpp"
#include "gnuplot.hpp"
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/chip/analyse/compare.hpp"
#include "imka/deploy/chip_file.hpp"

namespace imka::app {
namespace {

struct ProgramArgs {
    TrialArgs trial;
    std::vector<std::string> methods;
    std::uint64_t draws = 1;
    std::uint64_t seed = 0;
    std::filesystem::path figure;
    std::filesystem::path output;
};

std::vector<ProgrammingMethod> chosen_methods(const ProgramArgs& args, const ChipSpec& spec) {
    std::vector<ProgrammingMethod> methods;
    for (const auto& name : args.methods) methods.push_back(parse_enum<ProgrammingMethod>(name));
    return methods.empty() ? programming_methods(spec) : methods;
}

template <class Value>
Summary over_draws(const MethodResult& result, Value&& value) {
    std::vector<double> values;
    for (const auto& draw : result.draws) values.push_back(value(draw));
    return summarize(std::move(values));
}

double unreached_share(const ProgrammingSummary& s) {
    return s.polarities == 0 ? 0.0 : static_cast<double>(s.unreached) / static_cast<double>(s.polarities);
}

std::optional<Summary> gradient_gain(const std::vector<MethodResult>& results) {
    const auto gains = gradient_gains(results);
    return gains ? std::optional(summarize(*gains)) : std::nullopt;
}

// Error of products per iteration, over the cores and draws that reached this iteration.
std::optional<report::Plot> gradient_figure(const std::vector<MethodResult>& results,
                                            const std::string& name) {
    const auto* gradient = find_method(results, ProgrammingMethod::gradient_descent);
    if (gradient == nullptr) return std::nullopt;
    report::Series series{.label = "gradient descent, measured while programming"};
    for (std::size_t k = 0;; ++k) {
        std::vector<double> values;
        for (const auto& draw : gradient->draws) {
            for (const auto& steps : draw.steps) {
                if (k < steps.size()) values.push_back(steps[k].error);
            }
        }
        if (values.empty()) break;
        const auto s = summarize(std::move(values));
        series.points.push_back({.x = static_cast<double>(k), .y = 100.0 * s.mean, .error = 100.0 * s.std});
    }
    report::Plot figure{.title = fmt::format("{}: programming by products", name),
                        .x_label = "iteration",
                        .y_label = "relative error of products (%)",
                        .series = {std::move(series)},
                        .from_zero = true};
    return figure;
}

// Mean over draws of one part of the cost.
template <class T>
double mean_cost(const MethodResult& r, T ProgrammingCost::*part) {
    return over_draws(r, [&](const auto& s) { return static_cast<double>(s.cost.*part); }).mean;
}

Json cost_json(const MethodResult& r) {
    return {{"set_pulses", mean_cost(r, &ProgrammingCost::set_pulses)},
            {"pulses", mean_cost(r, &ProgrammingCost::pulses)},
            {"reads", mean_cost(r, &ProgrammingCost::reads)},
            {"products", mean_cost(r, &ProgrammingCost::products)},
            {"seconds", mean_cost(r, &ProgrammingCost::seconds)},
            {"joules", mean_cost(r, &ProgrammingCost::joules)}};
}

Json method_json(const MethodResult& r) {
    Json json = {
        {"method", to_string(r.method)},
        {"weight_error_before", summary_json(over_draws(r, [](const auto& s) { return s.before.weight; }))},
        {"weight_error", summary_json(over_draws(r, [](const auto& s) { return s.after.weight; }))},
        {"product_error_before", summary_json(over_draws(r, [](const auto& s) { return s.before.product; }))},
        {"product_error", summary_json(over_draws(r, [](const auto& s) { return s.after.product; }))},
        {"unreached", over_draws(r, unreached_share).mean},
        {"cost", cost_json(r)}};
    Json steps = Json::array();
    if (!r.draws[0].steps.empty()) {
        for (const auto& step : r.draws[0].steps[0])
            steps.push_back({{"error", step.error}, {"pulses", step.pulses}});
    }
    if (!steps.empty()) json["steps"] = steps;
    return json;
}

void print_methods(const std::vector<MethodResult>& results) {
    TextTable table = {{"method", "weight error %", "product error %", "pulses", "reads", "products",
                        "chip seconds", "mJ", "unreached %"}};
    for (const auto& r : results) {
        const auto change = [&](auto before, auto after) {
            auto last = mean_text(over_draws(r, after), 100.0);
            if (r.method == ProgrammingMethod::statistical) return last;
            return fmt::format("{:.3g} -> {}", 100.0 * over_draws(r, before).mean, last);
        };
        std::vector<std::string> row = {std::string(to_string(r.method)),
                                        change([](const auto& s) { return s.before.weight; },
                                               [](const auto& s) { return s.after.weight; }),
                                        change([](const auto& s) { return s.before.product; },
                                               [](const auto& s) { return s.after.product; })};
        if (r.method == ProgrammingMethod::statistical) {
            row.insert(row.end(), {"-", "-", "-", "-", "-", "-"});
        } else {
            const double pulses = over_draws(r, [](const auto& s) {
                                      return static_cast<double>(s.cost.set_pulses + s.cost.pulses);
                                  }).mean;
            for (const double value :
                 {pulses, mean_cost(r, &ProgrammingCost::reads), mean_cost(r, &ProgrammingCost::products),
                  mean_cost(r, &ProgrammingCost::seconds), 1e3 * mean_cost(r, &ProgrammingCost::joules),
                  100.0 * over_draws(r, unreached_share).mean})
                row.push_back(fmt::format("{:.4g}", value));
        }
        table.push_back(std::move(row));
    }
    print_out("{}", format_table(table));
}

void print_results(const ProgramArgs& args, const ChipTrials& trials,
                   const std::vector<MethodResult>& results, double seconds) {
    const auto& spec = trials.build.settings.spec;
    print_out("{}\n{}; {} of chip and weights\n\n", chip_line(trials),
              problem_text(args.trial.problem, trials), count_text(args.draws, "draw", "draws"));
    print_methods(results);
    print_out(
        "\nBefore -> after, {} after programming. Before: one pulse per device; for gradient descent: "
        "max-SET-fill.\nProduct error: random inputs; scale and offset of each column are fitted on other "
        "inputs.\n",
        duration_text(spec.device.t_0_seconds));
    if (const auto gain = gradient_gain(results)) {
        print_out("\nGradient descent lowers the error of products by {:.1f} % against max-SET-fill",
                  100.0 * gain->mean);
        if (args.draws > 1)
            print_out(" (95 % interval {:.1f} to {:.1f}, {} draws)", 100.0 * (gain->mean - gain->half_width),
                      100.0 * (gain->mean + gain->half_width), args.draws);
        print_out(".\n");
    }
    if (const auto figure = gradient_figure(results, spec.name))
        print_out("\n{}", report::draw_text(*figure));
    print_figure_note(args.figure);
    if (!args.output.empty())
        print_out("\n{}: the chip of seed {} by {}, outputs calibrated\n", args.output.string(), args.seed,
                  to_string(results.back().method));
    print_out("\nEmulated in {:.1f} s.\n", seconds);
}

void run_program(ProgramArgs& args, const Context& context) {
    check_figure(args.figure);
    check_folder(args.output);
    args.trial.chip.seeds.resize(args.draws);
    std::iota(args.trial.chip.seeds.begin(), args.trial.chip.seeds.end(), args.seed);
    const auto trials = make_trials(args.trial);
    const auto& name = trials.build.settings.spec.name;
    const auto begin = std::chrono::steady_clock::now();
    auto [results, chip] =
        compare_programming(trials, chosen_methods(args, trials.build.settings.spec), context.exec);
    if (!args.output.empty()) {
        save_chip_file(args.output, with_calibrated_outputs(std::move(chip), OutputFit::applied,
                                                            without_progress(context.exec)));
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!args.figure.empty()) {
        const auto figure = gradient_figure(results, name);
        if (!figure) fail(ErrorCode::bad_usage, "--figure draws gradient_descent: add it to --methods");
        draw_file(*figure, args.figure);
    }
    if (!context.json) return print_results(args, trials, results, seconds);
    Json list = Json::array();
    for (const auto& r : results) list.push_back(method_json(r));
    const auto gain = gradient_gain(results);
    auto json = chip_json(trials);
    json.update({{"draws", args.draws},
                 {"seed", args.seed},
                 {"methods", list},
                 {"gradient_gain", gain ? summary_json(*gain) : Json()}});
    print_json(json);
}

}  // namespace

void add_chip_program(CLI::App& chip, Context& context) {
    auto args = std::make_shared<ProgramArgs>();
    auto* verb = add_verb(chip, "program", "Compare programming methods: error and cost",
                          {"imka chip program --figure steps.svg",
                           "imka chip program --methods max_set_fill,gradient_descent --draws 10 --json"});
    add_common_options(*verb, context);
    add_own_chip_options(*verb, args->trial.chip);
    add_problem_options(*verb, args->trial.problem);
    verb->add_option("--methods", args->methods,
                     "Programming methods, separated by commas; default: all methods that the chip models")
        ->delimiter(',')
        ->type_name(join_names(EnumNames<ProgrammingMethod>::values, "|"));
    using range::between;
    bind_fields(*verb, {field("draws", args->draws,
                              between(1, 10000, "Number of chips and weight matrices to average over")),
                        field("seed", args->seed,
                              {.help = "Seed of the first draw; the next draws use seed + 1, seed + 2, ..."}),
                        field("iterations", args->trial.build.programming.gradient.iterations,
                              between(1, 1000, "Maximum number of iterations of gradient descent"))});
    add_figure_option(*verb, args->figure, "Draw the steps of gradient descent");
    verb->add_option("--output", args->output,
                     "Save the first chip, programmed by the last method, for 'imka chip mvm --load'");
    verb->callback([args, &context] { run_program(*args, context); });
}

}  // namespace imka::app

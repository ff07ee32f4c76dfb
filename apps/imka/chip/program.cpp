// imka chip program: what each way to program a chip achieves, and what it costs.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>

#include "chip/commands.hpp"
#include "chip/options.hpp"
#include "gnuplot.hpp"
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/deploy/chip_matrix_io.hpp"

namespace imka::app {
namespace {

struct Args {
    ChipArgs chip;
    ProblemArgs problem;
    std::vector<std::string> methods;
    std::uint64_t draws = 1;
    std::uint64_t seed = 0;
    int iterations = GradientConfig{}.iterations;
    std::filesystem::path figure;
    std::filesystem::path output;
};

// One method over all draws.
struct MethodResult {
    ProgrammingMethod method = ProgrammingMethod::statistical;
    std::vector<ProgrammingSummary> draws;
};

std::vector<ProgrammingMethod> chosen_methods(const Args& args, const ChipSpec& spec) {
    std::vector<ProgrammingMethod> methods;
    for (const auto& name : args.methods) methods.push_back(parse_enum<ProgrammingMethod>(name));
    if (!methods.empty()) return methods;
    methods.push_back(ProgrammingMethod::statistical);
    if (spec.pulses) {
        methods.insert(methods.end(), {ProgrammingMethod::verify, ProgrammingMethod::max_set_fill,
                                       ProgrammingMethod::gradient_descent});
    }
    return methods;
}

// The outcome of statistical programming is drawn, not measured: it is measured here as the others are.
void measure_statistical(const ChipMatrix& chip, const ProgrammingConfig& config, const Exec& exec,
                         ProgrammingSummary& summary) {
    const double share = 1.0 / static_cast<double>(chip.core_count());
    for (std::size_t c = 0; c < chip.core_count(); ++c) {
        const auto& tile = chip.tiling.tiles[c % chip.tiling.tiles.size()];
        Matrix<float> weights(tile.rows, tile.cols);
        for (std::size_t r = 0; r < tile.rows; ++r)
            std::ranges::copy(chip.weights.row(tile.first_row + r).subspan(tile.first_col, tile.cols),
                              weights.row(r).begin());
        const auto errors = programming_errors(exec,
                                               {.chip = chip.spec,
                                                .weights = weights.view(),
                                                .mapping = chip.mappings[c % chip.tiling.tiles.size()],
                                                .ids = chip.cores[c].ids,
                                                .config = config},
                                               chip.cores[c], chip.time);
        summary.after.weight += share * errors.weight;
        summary.after.product += share * errors.product;
        summary.polarities += 2 * tile.rows * tile.cols;
    }
    summary.before = summary.after;
}

std::vector<MethodResult> run_draws(const Args& args, const ChipSpec& spec, const ProblemSource& source,
                                    const Exec& exec) {
    std::vector<MethodResult> results;
    for (const auto method : chosen_methods(args, spec)) results.push_back({.method = method, .draws = {}});
    const auto settings = make_settings(spec, args.problem);
    Progress progress(exec, "programming", args.draws * results.size());
    Exec quiet = exec;
    quiet.progress = nullptr;
    std::uint64_t done = 0;
    for (std::uint64_t draw = 0; draw < args.draws; ++draw) {
        const auto problem = source.draw(args.seed + draw);
        auto blank = ideal_matrix(spec, problem.weights, args.seed + draw);
        place(blank);
        calibrate(blank, problem.calibration.view(), settings.calibration, quiet);
        for (auto& result : results) {
            check_cancelled(exec);
            auto chip = blank;
            ProgrammingConfig config{.method = result.method};
            config.gradient.iterations = args.iterations;
            auto summary = program(chip, config, quiet);
            if (result.method == ProgrammingMethod::statistical)
                measure_statistical(chip, config, quiet, summary);
            result.draws.push_back(std::move(summary));
            if (draw == 0 && &result == &results.back() && !args.output.empty()) {
                calibrate_outputs(chip, quiet);
                save_chip_matrix(args.output, chip);
            }
            progress.update(++done);
        }
    }
    return results;
}

template <class Value>
Summary over_draws(const MethodResult& result, Value&& value) {
    std::vector<double> values;
    for (const auto& draw : result.draws) values.push_back(value(draw));
    return summarize(std::move(values));
}

double pulse_count(const ProgrammingSummary& s) {
    return static_cast<double>(s.cost.set_pulses + s.cost.pulses);
}
double unreached_share(const ProgrammingSummary& s) {
    return s.polarities == 0 ? 0.0 : static_cast<double>(s.unreached) / static_cast<double>(s.polarities);
}

const MethodResult* find_method(const std::vector<MethodResult>& results, ProgrammingMethod method) {
    const auto it = std::ranges::find(results, method, &MethodResult::method);
    return it == results.end() ? nullptr : &*it;
}

// Share of max-SET-fill's error of products that gradient descent removes, draw by draw.
std::optional<Summary> gradient_gain(const std::vector<MethodResult>& results) {
    const auto* fill = find_method(results, ProgrammingMethod::max_set_fill);
    const auto* gradient = find_method(results, ProgrammingMethod::gradient_descent);
    if (fill == nullptr || gradient == nullptr) return std::nullopt;
    std::vector<double> gains;
    for (std::size_t d = 0; d < fill->draws.size(); ++d)
        gains.push_back(1.0 - gradient->draws[d].after.product / fill->draws[d].after.product);
    return summarize(std::move(gains));
}

// Error of products in each iteration, over cores and draws; as long as all are at work.
std::optional<report::Plot> gradient_figure(const std::vector<MethodResult>& results,
                                            const std::string& name) {
    const auto* gradient = find_method(results, ProgrammingMethod::gradient_descent);
    if (gradient == nullptr) return std::nullopt;
    report::Series series{.label = "gradient descent, measured while programming", .points = {}};
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

Json cost_json(const MethodResult& r) {
    const auto mean = [&](auto value) { return over_draws(r, value).mean; };
    return {{"set_pulses", mean([](const auto& s) { return static_cast<double>(s.cost.set_pulses); })},
            {"pulses", mean([](const auto& s) { return static_cast<double>(s.cost.pulses); })},
            {"reads", mean([](const auto& s) { return static_cast<double>(s.cost.reads); })},
            {"products", mean([](const auto& s) { return static_cast<double>(s.cost.products); })},
            {"seconds", mean([](const auto& s) { return s.cost.seconds; })},
            {"joules", mean([](const auto& s) { return s.cost.joules; })}};
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
        const auto mean = [&](auto value, double factor) {
            return fmt::format("{:.4g}", factor * over_draws(r, value).mean);
        };
        std::vector<std::string> row = {std::string(to_string(r.method)),
                                        change([](const auto& s) { return s.before.weight; },
                                               [](const auto& s) { return s.after.weight; }),
                                        change([](const auto& s) { return s.before.product; },
                                               [](const auto& s) { return s.after.product; })};
        if (r.method == ProgrammingMethod::statistical) {
            row.insert(row.end(), {"-", "-", "-", "-", "-", "-"});
        } else {
            row.insert(
                row.end(),
                {mean(pulse_count, 1.0),
                 mean([](const auto& s) { return static_cast<double>(s.cost.reads); }, 1.0),
                 mean([](const auto& s) { return static_cast<double>(s.cost.products); }, 1.0),
                 mean([](const auto& s) { return s.cost.seconds; }, 1.0),
                 mean([](const auto& s) { return s.cost.joules; }, 1e3), mean(unreached_share, 100.0)});
        }
        table.push_back(std::move(row));
    }
    fmt::print("{}", format_table(table));
}

void print_results(const Args& args, const ChipSpec& spec, const ProblemSource& source,
                   const std::vector<MethodResult>& results, double seconds) {
    fmt::print("{}\n{}; {} draw{} of chip and weights\n\n", chip_line(spec, source.rows(), source.cols()),
               source.description(), args.draws, args.draws == 1 ? "" : "s");
    print_methods(results);
    fmt::print(
        "\nBefore -> after, {} after programming. Before: one pulse a device; of gradient descent: "
        "max-SET-fill.\nProduct error: random inputs, scale and offset of each column fitted on other "
        "inputs.\n",
        duration_text(spec.device.t_0_seconds));
    if (const auto gain = gradient_gain(results)) {
        fmt::print("\nGradient descent lowers the error of products by {:.1f} % against max-SET-fill",
                   100.0 * gain->mean);
        if (args.draws > 1)
            fmt::print(" (95 % interval {:.1f} to {:.1f}, {} draws)", 100.0 * (gain->mean - gain->half_width),
                       100.0 * (gain->mean + gain->half_width), args.draws);
        fmt::print(".\n");
    }
    if (const auto figure = gradient_figure(results, spec.name))
        fmt::print("\n{}", report::draw_text(*figure));
    if (!args.figure.empty()) fmt::print("\n{} written\n", args.figure.string());
    if (!args.output.empty())
        fmt::print("\n{}: the chip of seed {} by {}, outputs calibrated\n", args.output.string(), args.seed,
                   to_string(results.back().method));
    fmt::print("\nEmulated in {:.1f} s.\n", seconds);
}

void run(const Args& args, const Context& context) {
    check_figure(args.figure);
    const auto spec = load_spec(args.chip);
    const ProblemSource source(args.problem);
    check_fits_chip(spec, source);
    const auto begin = std::chrono::steady_clock::now();
    const auto results = run_draws(args, spec, source, context.exec);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!args.figure.empty()) {
        const auto figure = gradient_figure(results, spec.name);
        if (!figure) fail(ErrorCode::bad_usage, "--figure draws gradient_descent: add it to --methods");
        draw_file(*figure, args.figure);
    }
    if (!context.json) return print_results(args, spec, source, results, seconds);
    Json list = Json::array();
    for (const auto& r : results) list.push_back(method_json(r));
    const auto gain = gradient_gain(results);
    print_json({{"chip", spec.name},
                {"chip_hash", chip_hash(spec)},
                {"rows", source.rows()},
                {"cols", source.cols()},
                {"draws", args.draws},
                {"seed", args.seed},
                {"methods", list},
                {"gradient_gain", gain ? summary_json(*gain) : Json()}});
}

}  // namespace

void add_chip_program(CLI::App& chip, Context& context) {
    auto args = std::make_shared<Args>();
    auto* verb = add_verb(chip, "program", "What each way to program a chip achieves and costs",
                          {"imka chip program --figure steps.svg",
                           "imka chip program --methods max_set_fill,gradient_descent --draws 10 --json"});
    add_common_options(*verb, context);
    add_chip_options(*verb, args->chip);
    add_problem_options(*verb, args->problem);
    verb->add_option("--methods", args->methods,
                     "Ways to program, separated by commas; all that the chip has a model for when absent")
        ->delimiter(',')
        ->type_name(join(EnumNames<ProgrammingMethod>::values, "|"));
    verb->add_option("--draws", args->draws, "Chips and weights to average over")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    verb->add_option("--seed", args->seed, "Seed of the first draw; the others follow")
        ->capture_default_str();
    verb->add_option("--iterations", args->iterations, "Most iterations of gradient descent")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    verb->add_option("--figure", args->figure,
                     "Draw the steps of gradient descent: FILE.svg, .pdf or .png (needs gnuplot)");
    verb->add_option("--output", args->output,
                     "Keep the first chip, programmed by the last method: 'imka chip mvm --load' takes it");
    verb->callback([args, &context] { run(*args, context); });
}

}  // namespace imka::app

// imka chip fit --measured: fits constants of a chip to Gram errors and accuracies measured on the real chip.
#include "chip/fit_measured.hpp"

#include <fmt/format.h>

#include <cmath>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/experiment/fit_chip.hpp"
#include "terminal.hpp"

namespace imka::app {
namespace {

// "core.adc_noise=0..5/0.5": the constant, its range, and the step for its numerical derivative.
FreeConstant parse_free(const std::string& text) {
    const auto equals = text.find('=');
    const auto dots = text.find("..");
    const auto slash = text.find('/');
    if (equals == std::string::npos || dots == std::string::npos || slash == std::string::npos ||
        !(equals < dots && dots < slash))
        fail(ErrorCode::bad_usage,
             fmt::format("--free {}: expected NAME=LOW..HIGH/STEP, for example core.adc_noise=0..5/0.5",
                         text));
    const auto number = [&](std::size_t from, std::size_t to) {
        return detail::parse_number(text.substr(from, to - from), "--free " + text);
    };
    return {.name = text.substr(0, equals),
            .low = number(equals + 1, dots),
            .high = number(dots + 2, slash),
            .step = number(slash + 1, text.size())};
}

TextTable score_table(const std::vector<FidelityScore>& all) {
    TextTable table = {{"kernel", "data set", "cells", "rms ln(emulated/measured)", "mean", "sampling noise",
                        "accuracies that agree"}};
    for (const auto& s : all)
        table.push_back(
            {s.kernel, s.dataset, std::to_string(s.cells), fmt::format("{:.3f}", s.rms),
             fmt::format("{:+.3f}", s.bias), fmt::format("{:.3f}", s.noise),
             fmt::format("{} ({:.0f} %)", s.accuracy_agrees,
                         100.0 * static_cast<double>(s.accuracy_agrees) / static_cast<double>(s.cells))});
    return table;
}

Json score_json(const std::vector<FidelityScore>& all) {
    auto list = Json::array();
    for (const auto& s : all)
        list.push_back({{"kernel", s.kernel},
                        {"dataset", s.dataset == "all" ? Json(nullptr) : Json(s.dataset)},
                        {"cells", s.cells},
                        {"rms_ln", s.rms},
                        {"mean_ln", s.bias},
                        {"sampling_noise", s.noise},
                        {"accuracy_hits", s.accuracy_agrees}});
    return list;
}

Json cell_json(const FidelityCell& c) {
    return {{"dataset", c.dataset},
            {"kernel", c.kernel},
            {"sampler", c.sampler},
            {"log_ratio", std::llround(c.log_ratio)},
            {"gram_error",
             {{"emulated", c.error.mean},
              {"measured", c.error_measured.mean},
              {"ln_ratio", c.residual()},
              {"sampling_noise", c.residual_error()}}},
            {"accuracy",
             {{"emulated", c.accuracy->mean},
              {"measured", c.accuracy_measured->mean},
              {"agrees", c.accuracy_agrees()}}}};
}

void print_cells(const std::vector<FidelityCell>& cells) {
    TextTable table = {{"data set", "kernel", "sampler", "r", "Gram error", "measured", "ln ratio",
                        "accuracy %", "measured"}};
    for (const auto& c : cells)
        table.push_back({c.dataset, c.kernel, c.sampler, fmt::format("{}", c.log_ratio),
                         fmt::format("{:.4f} ± {:.4f}", c.error.mean, c.error.error()),
                         fmt::format("{:.4f} ± {:.4f}", c.error_measured.mean, c.error_measured.error()),
                         fmt::format("{:+.3f}", c.residual()),
                         fmt::format("{:.2f} ± {:.2f}", 100 * c.accuracy->mean, 100 * c.accuracy->error()),
                         fmt::format("{:.2f} ± {:.2f}{}", 100 * c.accuracy_measured->mean,
                                     100 * c.accuracy_measured->error(), c.accuracy_agrees() ? "" : "  !")});
    print_out("{}\n", format_table(table));
}

void print_constants(const std::vector<FreeConstant>& free, const FittedChip& fit) {
    TextTable table = {{"constant", "value", "standard error"}};
    for (const auto& f : free) table.front().push_back(f.name);
    for (const auto& out : fit.left_out) table.front().push_back("without " + out.dataset);
    for (std::size_t p = 0; p < free.size(); ++p) {
        std::vector<std::string> row = {free[p].name, fmt::format("{:.4g}", fit.values[p]),
                                        fmt::format("{:.2g}", fit.errors[p])};
        for (std::size_t q = 0; q < free.size(); ++q)
            row.push_back(fmt::format("{:+.2f}", fit.correlations(p, q)));
        for (const auto& out : fit.left_out) row.push_back(fmt::format("{:.4g}", out.values[p]));
        table.push_back(std::move(row));
    }
    print_out("{}\n", format_table(table));
}

Json fit_json(const std::vector<FreeConstant>& free, const FittedChip& fit) {
    Json j;
    auto& constants = j["constants"] = Json::array();
    for (std::size_t p = 0; p < free.size(); ++p) {
        Json row = {{"name", free[p].name}, {"value", fit.values[p]}, {"standard_error", fit.errors[p]}};
        for (std::size_t q = 0; q < free.size(); ++q)
            row["correlations"][free[q].name] = fit.correlations(p, q);
        constants.push_back(std::move(row));
    }
    j["chi2"] = fit.chi2;
    j["evaluations"] = fit.evaluations;
    j["scores"] = score_json(scores(fit.cells));
    for (const auto& out : fit.left_out)
        j["left_out"].push_back(
            {{"dataset", out.dataset}, {"values", out.values}, {"scores", score_json(out.scores)}});
    for (const auto& c : fit.cells) j["cells"].push_back(cell_json(c));
    return j;
}

}  // namespace

void add_measured_options(CLI::App& verb, MeasuredFitArgs& args) {
    verb.add_option("--measured", args.measured,
                    "CSV of results of the real chip, with the columns "
                    "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,"
                    "metric,value")
        ->check(CLI::ExistingFile);
    verb.add_option("--experiment", args.experiment,
                    "With --measured: experiment that defines the runs and their settings")
        ->capture_default_str();
    verb.add_option("--measured-backend", args.backend,
                    "With --measured: use the rows of the CSV with this backend")
        ->capture_default_str();
    verb.add_option(
        "--free", args.free,
        "With --measured: constant to fit, NAME=LOW..HIGH/STEP; may be repeated. Default: compare only");
    verb.add_option("--datasets", args.datasets,
                    "With --measured: use only these data sets, separated by commas")
        ->delimiter(',');
    verb.add_option("--run-seeds", args.seeds,
                    "With --measured: seeds of the emulated runs, for example 0..9");
    using range::between;
    bind_fields(verb, {field("test_rows", args.test_rows,
                             between(100, 1e7, "With --measured: number of test rows for accuracies")),
                       field("iterations", args.iterations,
                             between(1, 100, "With --measured: maximum number of iterations"))});
    verb.add_flag("--no-leave-out", args.no_leave_out,
                  "With --measured: skip the prediction of each data set from the others");
    verb.add_flag("--cells", args.cells,
                  "With --measured: print every combination of data set, kernel, sampler and size");
    for (const auto* flag : {"--experiment", "--measured-backend", "--free", "--datasets", "--run-seeds",
                             "--test-rows", "--iterations", "--no-leave-out", "--cells"})
        verb.get_option(flag)->needs("--measured");
}

void fit_measured(const MeasuredFitArgs& args, const ChipSpec& chip, const Context& context) {
    ChipFitConfig config;
    for (const auto& text : args.free) config.free.push_back(parse_free(text));
    config.iterations = config.free.empty() ? 0 : args.iterations;
    config.leave_out = !args.no_leave_out;
    auto experiment = find_experiment(args.experiment);
    if (!args.seeds.empty()) override_setting(experiment, "seeds", args.seeds);
    const ChipComparison comparison({.experiment = std::move(experiment),
                                     .measured = args.measured,
                                     .data_dir = context.data_dir,
                                     .backend = args.backend,
                                     .test_rows = args.test_rows,
                                     .datasets = args.datasets},
                                    context.exec);
    const auto fit = fit_chip(comparison, chip, config, context.exec);
    if (context.json) return print_json(fit_json(config.free, fit));
    if (args.cells) print_cells(fit.cells);
    if (!config.free.empty()) print_constants(config.free, fit);
    print_out("{}\n", format_table(score_table(scores(fit.cells))));
    if (!fit.left_out.empty()) {
        std::vector<FidelityScore> out;
        for (const auto& l : fit.left_out) {
            for (const auto& s : l.scores) {
                if (s.dataset != "all") out.push_back(s);
            }
        }
        print_out("each data set, predicted by a fit to the others:\n{}\n", format_table(score_table(out)));
    }
    print_out("chi² {:.1f} over {} differences, {} constants; {} emulations of {} runs\n", fit.chi2,
              2 * fit.cells.size(), config.free.size(), fit.evaluations, comparison.runs());
}

}  // namespace imka::app

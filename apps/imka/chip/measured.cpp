// Comparison of a chip with measurements of the real one: fits of its constants (imka chip fit --measured),
// and the signatures of candidate mechanisms (imka chip signatures).
#include "chip/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "chip/options.hpp"
#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/experiment/fit_chip.hpp"
#include "imka/experiment/signatures.hpp"
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
    TextTable table = {{"constant", "value", "standard error", "matters at"}};
    for (const auto& f : free) table.front().push_back(f.name);
    for (const auto& out : fit.left_out) table.front().push_back("without " + out.dataset);
    for (std::size_t p = 0; p < free.size(); ++p) {
        std::vector<std::string> row = {free[p].name, fmt::format("{:.4g}", fit.values[p]),
                                        fmt::format("{:.2g}", fit.errors[p]),
                                        fmt::format("± {:.2g}", fit.matters[p])};
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
        Json row = {{"name", free[p].name},
                    {"value", fit.values[p]},
                    {"standard_error", fit.errors[p]},
                    {"matters_at", fit.matters[p]}};
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

Json posterior_json(const std::vector<FreeConstant>& free, const Posterior& posterior) {
    Json j = {{"accepted", posterior.accepted},
              {"coverage", posterior.coverage(kModelError)},
              {"coverage_without_model_error", posterior.coverage(0.0)}};
    for (std::size_t p = 0; p < free.size(); ++p) j["draws"][free[p].name] = posterior.values(p);
    return j;
}

void print_posterior(const std::vector<FreeConstant>& free, const Posterior& posterior) {
    TextTable table = {{"constant", "mean", "standard deviation", "smallest", "largest"}};
    for (std::size_t p = 0; p < free.size(); ++p) {
        const auto values = posterior.values(p);
        const auto [low, high] = std::ranges::minmax(values);
        const auto s = summarize(values);
        table.push_back({free[p].name, fmt::format("{:.4g}", s.mean), fmt::format("{:.2g}", s.std),
                         fmt::format("{:.4g}", low), fmt::format("{:.4g}", high)});
    }
    print_out(
        "{} draws from the posterior; {:.0f} % of the proposals of its Gaussian approximation "
        "accepted:\n{}\n",
        posterior.draws.size(), 100.0 * posterior.accepted, format_table(table));
    print_out(
        "{:.1f} % of the measured Gram errors lie within the 95 % interval of chip, seeds and a model error "
        "of "
        "{:.0f} %; {:.1f} % without the model error\n\n",
        100.0 * posterior.coverage(kModelError), 100.0 * kModelError, 100.0 * posterior.coverage(0.0));
}

// `prefix`: "With --measured: " where the verb works without measurements too.
void add_comparison_options(CLI::App& verb, const std::string& prefix, ComparisonArgs& args) {
    verb.add_option("--measured", args.measured,
                    "CSV of results of the real chip, with the columns "
                    "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,"
                    "metric,value")
        ->check(CLI::ExistingFile);
    verb.add_option("--experiment", args.experiment,
                    prefix + "experiment that defines the runs and their settings")
        ->capture_default_str();
    verb.add_option("--measured-backend", args.backend, prefix + "use the rows of the CSV with this backend")
        ->capture_default_str();
    verb.add_option("--datasets", args.datasets, prefix + "use only these data sets, separated by commas")
        ->delimiter(',');
    verb.add_option("--run-seeds", args.seeds, prefix + "seeds of the emulated runs, for example 0..9");
    bind_fields(verb, {field("test_rows", args.test_rows,
                             range::between(100, 1e7, "Number of test rows for accuracies"))});
    verb.add_option(
        "--resume", args.resume,
        "Write every emulation to this file, and reuse those that it already has; with --measured");
    for (const auto* flag :
         {"--experiment", "--measured-backend", "--datasets", "--run-seeds", "--test-rows", "--resume"})
        verb.get_option(flag)->needs("--measured");
}

ChipComparison make_comparison(const ComparisonArgs& args, const Context& context) {
    auto experiment = find_experiment(args.experiment);
    if (!args.seeds.empty()) override_setting(experiment, "seeds", args.seeds);
    return ChipComparison({.experiment = std::move(experiment),
                           .measured = args.measured,
                           .data_dir = context.data_dir,
                           .backend = args.backend,
                           .test_rows = args.test_rows,
                           .datasets = args.datasets,
                           .kept = args.resume},
                          context.exec);
}

// "name: core.product_limit=3,core.adc_noise=2"
struct Candidate {
    std::string name;
    ChipSpec chip;
};
Candidate parse_candidate(const std::string& text, const ChipSpec& base) {
    const auto colon = text.find(':');
    if (colon == std::string::npos || colon == 0)
        fail(ErrorCode::bad_usage,
             fmt::format("--candidate {}: expected NAME: KEY=VALUE,...", in_quotes(text)));
    auto constants = text.substr(colon + 1);
    constants.erase(0, constants.find_first_not_of(' '));
    Candidate out{.name = text.substr(0, colon), .chip = base};
    set_constants(out.chip, constants);
    return out;
}

struct SignatureArgs {
    ComparisonArgs comparison;
    ChipArgs chip;
    std::vector<std::string> candidates;
    double least_log_ratio = 4.0;
};

using Emulations = std::vector<std::vector<FidelityCell>>;  // of the chip itself, then of every candidate

Json signatures_json(const std::vector<Candidate>& candidates, const Emulations& all) {
    Json list = Json::array();
    for (std::size_t k = 0; k < all.size(); ++k) {
        Json cells = Json::array();
        for (const auto& c : all[k]) cells.push_back(cell_json(c));
        list.push_back({{"candidate", k == 0 ? Json(nullptr) : Json(candidates[k - 1].name)},
                        {"chi2", chi_squared(all[k])},
                        {"scores", score_json(scores(all[k]))},
                        {"cells", cells}});
    }
    return list;
}

void print_signatures(const SignatureArgs& args, const std::vector<Candidate>& candidates,
                      const Emulations& all) {
    TextTable table = {{"data set", "kernel", "sampler", "measured"}};
    for (const auto& c : candidates) table.front().push_back(c.name);
    for (const auto& s : signatures(all, args.least_log_ratio)) {
        std::vector<std::string> row = {s.dataset, s.kernel, s.sampler,
                                        fmt::format("{:+.3f} ± {:.3f}", s.missing, s.missing_error)};
        for (const double change : s.changes) row.push_back(fmt::format("{:+.3f}", change));
        table.push_back(std::move(row));
    }
    print_out("mean of ln(Gram error / Gram error of {}) for r >= {}:\n{}\n", args.chip.chip,
              args.least_log_ratio, format_table(table));
    TextTable rms = {{"candidate", "chi²"}};
    for (const auto& s : scores(all.front())) rms.front().push_back(s.kernel + " " + s.dataset);
    for (std::size_t k = 0; k < all.size(); ++k) {
        std::vector<std::string> row = {k == 0 ? "(none)" : candidates[k - 1].name,
                                        fmt::format("{:.1f}", chi_squared(all[k]))};
        for (const auto& s : scores(all[k])) row.push_back(fmt::format("{:.3f}", s.rms));
        rms.push_back(std::move(row));
    }
    print_out("RMS of ln(emulated / measured Gram error), all sizes:\n{}", format_table(rms));
}

void run_signatures(const SignatureArgs& args, const Context& context) {
    const auto base = load_spec(args.chip);
    std::vector<Candidate> candidates;
    for (const auto& text : args.candidates) candidates.push_back(parse_candidate(text, base));
    const auto comparison = make_comparison(args.comparison, context);
    Emulations all = {comparison.emulate(base, context.exec)};
    Progress progress(context.exec, "candidates", candidates.size());
    for (const auto& c : candidates) {
        check_cancelled(context.exec);
        all.push_back(comparison.emulate(c.chip, without_progress(context.exec)));
        progress.update(all.size() - 1);
    }
    if (context.json) return print_json(signatures_json(candidates, all));
    print_signatures(args, candidates, all);
}

}  // namespace

void add_measured_options(CLI::App& verb, MeasuredFitArgs& args) {
    add_comparison_options(verb, "With --measured: ", args.comparison);
    verb.add_option(
        "--free", args.free,
        "With --measured: constant to fit, NAME=LOW..HIGH/STEP; may be repeated. Default: compare only");
    using range::between;
    bind_fields(verb,
                {field("iterations", args.iterations,
                       between(1, 100, "With --measured: maximum number of iterations")),
                 field("posterior", args.posterior,
                       between(0, 1000, "With --measured: draws of the constants from their posterior"))});
    verb.add_flag("--no-leave-out", args.no_leave_out,
                  "With --measured: skip the prediction of each data set from the others");
    verb.add_flag("--cells", args.cells,
                  "With --measured: print every combination of data set, kernel, sampler and size");
    for (const auto* flag : {"--free", "--iterations", "--posterior", "--no-leave-out", "--cells"})
        verb.get_option(flag)->needs("--measured");
}

void fit_measured(const MeasuredFitArgs& args, const ChipSpec& chip, const std::filesystem::path& output,
                  const Context& context) {
    ChipFitConfig config;
    if (args.free.empty() && (args.posterior > 0 || !output.empty()))
        fail(ErrorCode::bad_usage, "--posterior and --output need constants to fit; add --free");
    check_folder(output);
    for (const auto& text : args.free) {
        auto constant = parse_free(text);
        if (std::ranges::any_of(config.free, [&](const FreeConstant& f) { return f.name == constant.name; }))
            fail(ErrorCode::bad_usage, fmt::format("--free: duplicate key '{}'", constant.name));
        config.free.push_back(std::move(constant));
    }
    config.iterations = config.free.empty() ? 0 : args.iterations;
    config.leave_out = !args.no_leave_out;
    const auto comparison = make_comparison(args.comparison, context);
    const auto fit = fit_chip(comparison, chip, config, context.exec);
    std::optional<Posterior> posterior;
    if (args.posterior > 0)
        posterior =
            sample_posterior(comparison, chip, config.free, fit, {.draws = args.posterior}, context.exec);
    if (!output.empty()) {
        auto fitted = measured_chip(chip, config.free, fit, posterior);
        fitted.name = output.stem().string();
        write_file_atomic(output, chip_text(fitted));
    }
    if (context.json) {
        auto json = fit_json(config.free, fit);
        if (posterior) json["posterior"] = posterior_json(config.free, *posterior);
        return print_json(json);
    }
    if (args.cells) print_cells(fit.cells);
    if (!config.free.empty()) print_constants(config.free, fit);
    if (posterior) print_posterior(config.free, *posterior);
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

void add_chip_signatures(CLI::App& chip, Context& context) {
    auto args = std::make_shared<SignatureArgs>();
    auto* verb = add_verb(
        chip, "signatures",
        "Compare the effects of candidate mechanisms with the unexplained part of the measured Gram errors",
        {"imka chip signatures --measured measured.csv --data-dir data --candidate 'limit: "
         "core.product_limit=3'",
         "imka chip signatures --measured measured.csv --run-seeds 0..5 --resume emulations.jsonl "
         "--candidate "
         "'nearest: core.output_rounding=nearest' --json"});
    add_common_options(*verb, context);
    add_own_chip_options(*verb, args->chip);
    add_comparison_options(*verb, "", args->comparison);
    verb->get_option("--measured")->required();
    verb->add_option("--candidate", args->candidates,
                     "Constants of the chip to change, NAME: KEY=VALUE,...; may be repeated")
        ->required();
    bind_fields(*verb, {field("least_log_ratio", args->least_log_ratio,
                              range::between(0, 64, "Smallest r in the table of signatures"))});
    verb->callback([args, &context] { run_signatures(*args, context); });
}

}  // namespace imka::app

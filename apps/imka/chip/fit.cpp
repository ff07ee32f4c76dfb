// imka chip fit: fits a device model to pairs of target and read conductance, or constants of a chip to Gram
// errors and accuracies measured on the real chip.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "chip/options.hpp"
#include "gnuplot.hpp"
#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/chip/device/fit_device.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/data/table.hpp"
#include "imka/experiment/fit_chip.hpp"
#include "terminal.hpp"

namespace imka::app {
namespace {

// With --measured.
struct MeasuredFitArgs {
    std::filesystem::path measured;
    std::string experiment = "fidelity";
    std::string backend = "hermes";
    std::vector<std::string> free;
    std::vector<std::string> datasets;
    std::string seeds;
    std::int64_t test_rows = 6000;
    int iterations = 6;
    bool no_leave_out = false;
    bool cells = false;
};

struct Args {
    ChipArgs chip;
    std::filesystem::path file;
    DeviceFitConfig fit;
    std::filesystem::path figure;
    MeasuredFitArgs measured;
    std::filesystem::path output;
};

// Columns by the names in the first line, otherwise by their order.
struct Columns {
    std::size_t target = 0;
    std::size_t read = 1;
    std::optional<std::size_t> time;
    std::optional<std::size_t> device;
};

Columns find_columns(const std::vector<std::string>& names, std::size_t count, const std::string& file) {
    Columns columns;
    if (std::ranges::find(names, "target") == names.end()) {
        if (count < 2 || count > 3)
            fail(ErrorCode::bad_data,
                 fmt::format("{}: {} column{}; expected target and read in uS, and optionally a time in s",
                             file, count, count == 1 ? "" : "s"));
        if (count == 3) columns.time = 2;
        return columns;
    }
    std::optional<std::size_t> read;
    for (std::size_t c = 0; c < names.size(); ++c) {
        if (names[c] == "target") {
            columns.target = c;
        } else if (names[c] == "read") {
            read = c;
        } else if (names[c] == "time") {
            columns.time = c;
        } else if (names[c] == "device") {
            columns.device = c;
        } else {
            fail(ErrorCode::bad_data,
                 fmt::format("{}: column '{}'; known: target, read, time, device", file, names[c]));
        }
    }
    if (!read) fail(ErrorCode::bad_data, fmt::format("{}: no column 'read'", file));
    columns.read = *read;
    return columns;
}

DeviceReads load_reads(const std::filesystem::path& file) {
    const ReadOptions options{.label_column = "none"};
    const auto table = read_table(file, options);
    const auto& x = table.x;
    const auto columns = find_columns(table.feature_names, x.cols(), file.string());
    DeviceReads reads;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        reads.target_us.push_back(x(r, columns.target));
        reads.read_us.push_back(x(r, columns.read));
        if (columns.time) reads.seconds.push_back(x(r, *columns.time));
        if (!columns.device) continue;
        const float id = x(r, *columns.device);
        if (!(id >= 0.0F && id < 16777216.0F && id == std::floor(id)))
            fail(ErrorCode::bad_data,
                 fmt::format("{}: row {}: device {}; expected an integer >= 0", file.string(), r + 1, id));
        reads.device.push_back(static_cast<std::size_t>(id));
    }
    return reads;
}

report::Plot make_figure(const DeviceFit& fit) {
    report::Series data{.label = "reads, by ranges of the target", .draw = report::Draw::marks};
    for (const auto& b : fit.bins) data.points.push_back({.x = b.u, .y = b.sd_us, .error = b.sd_error_us});
    report::Series curve{.label = "fitted curve", .draw = report::Draw::curve};
    for (int i = 0; i <= 60; ++i)
        curve.points.push_back({.x = i / 60.0, .y = fitted_sigma_us(fit, i / 60.0)});
    return {.title = "Programming error",
            .x_label = fmt::format("u = target / {:.4g} uS", fit.g_max_us),
            .y_label = "standard deviation of read - target (uS)",
            .series = {std::move(curve), std::move(data)},
            .from_zero = true};
}

Json constant_json(const FittedConstant& c) {
    return {{"value", c.value}, {"error", c.error}};
}

Json fit_json(const DeviceFit& fit) {
    Json sigma = Json::array();
    for (const auto& c : fit.sigma_us) sigma.push_back(constant_json(c));
    Json bins = Json::array();
    for (const auto& b : fit.bins)
        bins.push_back({{"u", b.u},
                        {"reads", b.count},
                        {"offset_us", b.offset_us},
                        {"sd_us", b.sd_us},
                        {"sd_error_us", b.sd_error_us},
                        {"curve_us", b.curve_us},
                        {"cut_at_zero", b.cut}});
    Json json = {{"g_max_us", fit.g_max_us},
                 {"reads", fit.reads},
                 {"reads_at_zero", fit.at_zero},
                 {"offset_us", constant_json(fit.offset_us)},
                 {"sigma_us", sigma},
                 {"chi2_per_freedom", fit.freedom > 0 ? Json(fit.chi2_per_freedom) : Json()},
                 {"freedom", fit.freedom},
                 {"ks_distance", fit.ks_distance},
                 {"ks_reads", fit.ks_reads},
                 {"bins", bins}};
    if (fit.drift)
        json["drift"] = {{"mean", constant_json(fit.drift->mean)},
                         {"sd", constant_json(fit.drift->sd)},
                         {"read_noise_removed", fit.drift->noise_removed},
                         {"devices", fit.drift->devices},
                         {"times", fit.drift->times},
                         {"t_0_seconds", fit.drift->t_0_seconds}};
    return json;
}

void print_fit(const Args& args, const DeviceFit& fit) {
    print_out("{}: {} reads up to {:.4g} uS, {} of them at 0\n\n", args.file.string(), fit.reads,
              fit.g_max_us, fit.at_zero);
    TextTable table = {{"constant", "value", "standard error", "unit", "meaning"}};
    const auto add = [&](const std::string& name, const FittedConstant& c, const std::string& unit,
                         const std::string& meaning) {
        table.push_back({name, fmt::format("{:.5g}", c.value),
                         c.error > 0.0 ? fmt::format("{:.2g}", c.error) : "at its bound", unit, meaning});
    };
    add("offset", fit.offset_us, "uS", "mean of read - target");
    for (std::size_t k = 0; k < fit.sigma_us.size(); ++k)
        add(fmt::format("c{}", k), fit.sigma_us[k], "uS",
            k == 0 ? "programming error: c0 + c1 u + ..., u = target / g_max" : "");
    if (fit.drift) {
        add("drift mean", fit.drift->mean, "",
            fmt::format("exponent, {} devices at {} times", fit.drift->devices, fit.drift->times));
        add("drift sd", fit.drift->sd, "",
            fit.drift->noise_removed
                ? "over devices, read noise subtracted"
                : "over devices, including read noise: two times are too few to separate them");
    }
    print_out("{}\n", format_table(table));
    print_out("Maximum likelihood with Gaussian errors; reads at 0 count as 0 or below.\n");
    if (fit.freedom > 0)
        print_out("chi² per degree of freedom of binned errors: {:.2f} ({} degrees)\n", fit.chi2_per_freedom,
                  fit.freedom);
    if (fit.ks_reads > 0) {
        // 1 % of samples of the correct law exceed this.
        const double limit = 1.63 / std::sqrt(static_cast<double>(fit.ks_reads));
        print_out(
            "Kolmogorov-Smirnov distance of standardised errors: {:.4f} over {} reads; {} (1 % limit "
            "{:.4f})\n",
            fit.ks_distance, fit.ks_reads, fit.ks_distance <= limit ? "as Gaussian" : "not Gaussian", limit);
    }
    print_out("\n{}", report::draw_text(make_figure(fit)));
}

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
    for (const auto& text : args.free) {
        auto constant = parse_free(text);
        if (std::ranges::any_of(config.free, [&](const FreeConstant& f) { return f.name == constant.name; }))
            fail(ErrorCode::bad_usage, fmt::format("--free: duplicate key '{}'", constant.name));
        config.free.push_back(std::move(constant));
    }
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

// The chip of --backend with the fitted devices.
ChipSpec fitted_chip(const Args& args, const DeviceFit& fit) {
    auto spec = with_fit(load_spec(args.chip), fit, args.file.filename().string());
    spec.name = args.output.stem().string();
    return spec;
}

void run(const Args& args, const Context& context) {
    if (args.file.empty() == args.measured.measured.empty())
        fail(ErrorCode::bad_usage,
             "chip fit: expected a CSV file of reads, or --measured FILE with results of a chip");
    if (!args.measured.measured.empty()) return fit_measured(args.measured, load_spec(args.chip), context);
    check_figure(args.figure);
    check_folder(args.output);
    const auto reads = load_reads(args.file);
    const auto fit = with_file_name(args.file, [&] { return fit_device(reads, args.fit); });
    if (!args.output.empty()) write_file_atomic(args.output, chip_text(fitted_chip(args, fit)));
    if (!args.figure.empty()) draw_file(make_figure(fit), args.figure);
    if (context.json) return print_json(fit_json(fit));
    print_fit(args, fit);
    print_figure_note(args.figure);
    if (!args.output.empty())
        print_out("\n{0}: {1} with these devices; try 'imka chip mvm --backend {0}'\n", args.output.string(),
                  args.chip.chip);
}

}  // namespace

void add_chip_fit(CLI::App& chip, Context& context) {
    auto args = std::make_shared<Args>();
    auto* verb =
        add_verb(chip, "fit",
                 "Fit a device model to pairs of target and read conductance, or constants of a chip to "
                 "results measured on the real chip",
                 {"imka chip fit pairs.csv --output mine.yaml",
                  "imka chip fit aged.csv --degree 2 --figure fit.svg --json",
                  "imka chip fit --measured measured.csv --data-dir data --free core.adc_noise=0..5/0.5"});
    add_common_options(*verb, context);
    verb->add_option("file", args->file,
                     "CSV with columns target and read in uS, and optionally time in s and device")
        ->check(CLI::ExistingFile);
    using range::between;
    bind_fields(
        *verb,
        {field("degree", args->fit.degree,
               between(0, 3,
                       "Degree of the polynomial in u = target / g_max that models the programming error")),
         field("g_max", args->fit.g_max_us, between(0.0, 1e6, "g_max; 0 = the largest target", "uS")),
         field("bins", args->fit.bins,
               between(2, 1000, "Number of bins of the target for the goodness of fit"))});
    add_chip_options(*verb, args->chip);
    add_measured_options(*verb, args->measured);
    verb->get_option("--chip")->description("Chip that provides the other constants for --output");
    verb->add_option("--output", args->output, "Write a chip file with the fitted devices")
        ->type_name("FILE.yaml");
    add_figure_option(*verb, args->figure, "Draw the fit");
    for (const auto* flag : {"file", "--degree", "--g-max", "--bins", "--output", "--figure"})
        verb->get_option("--measured")->excludes(flag);
    verb->callback([args, verb, &context] {
        if (args->output.empty() && args->measured.measured.empty())
            reject_without_effect(*verb, {"--backend", "--chip-set"}, "no chip file is written (--output)");
        run(*args, context);
    });
}

}  // namespace imka::app

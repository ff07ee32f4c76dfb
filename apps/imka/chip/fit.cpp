// imka chip fit: fits a device model to pairs of target and read conductance, or constants of a chip to Gram
// errors and accuracies measured on the real chip.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "chip/measured.hpp"
#include "chip/options.hpp"
#include "gnuplot.hpp"
#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/chip/device/fit_device.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/data/table.hpp"
#include "terminal.hpp"

namespace imka::app {
namespace {

struct FitArgs {
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
                 fmt::format("{}: {}; expected target and read in uS, and optionally a time in s", file,
                             count_text(count, "column", "columns")));
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

void print_fit(const FitArgs& args, const DeviceFit& fit) {
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
                : "over devices, including read noise: two reads per device are too few to separate them");
    }
    print_out("{}\n", format_table(table));
    print_out("Maximum likelihood with Gaussian errors; reads at 0 count as 0 or below.\n");
    if (fit.freedom > 0)
        print_out("chi² per degree of freedom of binned errors: {:.2f} ({} degrees)\n", fit.chi2_per_freedom,
                  fit.freedom);
    if (fit.ks_reads > 0) {
        const double limit = ks_limit(fit.ks_reads);
        print_out(
            "Kolmogorov-Smirnov distance of standardised errors: {:.4f} over {} reads; {} (1 % limit "
            "{:.4f})\n",
            fit.ks_distance, fit.ks_reads, fit.ks_distance <= limit ? "as Gaussian" : "not Gaussian", limit);
    }
    print_out("\n{}", report::draw_text(make_figure(fit)));
}

// The chip of --backend with the fitted devices.
ChipSpec fitted_chip(const FitArgs& args, const DeviceFit& fit) {
    auto spec = with_fit(load_spec(args.chip), fit, args.file.filename().string());
    spec.name = args.output.stem().string();
    return spec;
}

void run_fit(const FitArgs& args, const Context& context) {
    if (args.file.empty() == args.measured.comparison.measured.empty())
        fail(ErrorCode::bad_usage,
             "chip fit: expected a CSV file of reads, or --measured FILE with results of a chip");
    if (!args.measured.comparison.measured.empty())
        return fit_measured(args.measured, load_spec(args.chip), args.output, context);
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
    auto args = std::make_shared<FitArgs>();
    auto* verb = add_verb(
        chip, "fit",
        "Fit a device model to pairs of target and read conductance, or constants of a chip to "
        "results measured on the real chip",
        {"imka chip fit pairs.csv --output mine.yaml",
         "imka chip fit aged.csv --degree 2 --figure fit.svg --json",
         "imka chip fit --measured measured.csv --data-dir data --free core.adc_noise=0..5/0.5",
         "imka chip fit --measured measured.csv --free core.adc_noise=0..5/0.5 --posterior 40 --resume "
         "fit.jsonl --output mine.yaml"});
    add_common_options(*verb, context);
    verb->add_option("file", args->file,
                     "CSV with columns target and read in uS, and optionally time in s and device")
        ->check(CLI::ExistingFile);
    bind_fields(*verb, fields(args->fit));
    add_own_chip_options(*verb, args->chip);
    add_measured_options(*verb, args->measured);
    verb->get_option("--backend")->description("Chip that provides the other constants");
    verb->add_option(
            "--output", args->output,
            "Write a chip file with the fitted devices, or with the fitted constants and their posterior")
        ->type_name("FILE.yaml");
    add_figure_option(*verb, args->figure, "Draw the fit");
    for (const auto* flag : {"file", "--degree", "--g-max", "--bins", "--figure"})
        verb->get_option("--measured")->excludes(flag);
    verb->callback([args, verb, &context] {
        if (args->output.empty() && args->measured.comparison.measured.empty())
            reject_without_effect(*verb, {"--backend", "--chip-set"}, "no chip file is written (--output)");
        run_fit(*args, context);
    });
}

}  // namespace imka::app

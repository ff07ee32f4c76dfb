// imka chip explain: how much of the error each non-ideality causes, alone and by what its removal saves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "chip/commands.hpp"
#include "chip/measure.hpp"
#include "chip/options.hpp"
#include "gnuplot.hpp"
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/chip/simulate/execute.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "run_options.hpp"

namespace imka::app {
namespace {

struct Args {
    ChipArgs chip{.seeds = {0, 1, 2, 3, 4}};
    ProblemArgs problem;
    RunArgs gram;
    BuildPlan plan;
    std::string time = "1h";
    std::string spacing = "0.001";
    AgeCompensation compensation = AgeCompensation::global;
    std::filesystem::path figure;
};

// One chip to try: all errors, none, one alone, all but one.
struct Case {
    enum class Kind { full, none, alone, removed } kind = Kind::full;
    std::size_t item = 0;  // of the items explained
};

// What is asked for one seed: the problem, and the squared error that a chip makes on it.
class Trial {
public:
    virtual ~Trial() = default;
    virtual const Problem& problem() const = 0;
    virtual double squared_error(const ChipMatrix& chip, std::uint64_t seed) const = 0;
};

class ProductTrial : public Trial {
public:
    ProductTrial(const ProblemSource& source, std::uint64_t seed)
        : problem_(source.draw(seed)),
          exact_(exact_products(problem_.inputs.view(), problem_.weights.view())) {}
    const Problem& problem() const override { return problem_; }
    double squared_error(const ChipMatrix& chip, std::uint64_t seed) const override {
        const double error = measure_error(
            chip, {.inputs = problem_.inputs.view(), .exact = exact_.view(), .seed = product_seed(seed)},
            {.threads = 1});
        return error * error;
    }

private:
    Problem problem_;
    Matrix<double> exact_;
};

Matrix<float> scaled_rows(MatrixView<const float> x, std::size_t count, double scale) {
    Matrix<float> out(std::min(count, x.rows()), x.cols());
    for (std::size_t r = 0; r < out.rows(); ++r) {
        for (std::size_t c = 0; c < out.cols(); ++c) out(r, c) = static_cast<float>(scale * double{x(r, c)});
    }
    return out;
}

class GramTrial : public Trial {
public:
    GramTrial(const RunConfig& config, const Dataset& data, const Matrix<double>& exact,
              std::size_t calibration_count, std::uint64_t seed)
        : config_(config), data_(data), exact_(exact), recipe_(feature_recipe(config, data, seed)) {
        const auto omega = sample(recipe_.omega, {.threads = 1});
        problem_.weights = Matrix<float>(omega.cols(), omega.rows());
        for (std::size_t r = 0; r < omega.rows(); ++r) {
            for (std::size_t c = 0; c < omega.cols(); ++c) problem_.weights(c, r) = omega(r, c);
        }
        const auto law = kernel_row(config.kernel).feature_law(recipe_.omega.gamma, data.train.x.cols());
        problem_.calibration = scaled_rows(data.train.x.view(), calibration_count, law.input_scale);
        problem_.inputs = scaled_rows(data.test.x.view(), exact.rows(), law.input_scale);
    }
    const Problem& problem() const override { return problem_; }
    double squared_error(const ChipMatrix& chip, std::uint64_t seed) const override {
        const FeatureMap map(
            recipe_, std::make_unique<ChipProjector>(ready(chip, {.threads = 1}), product_seed(seed)));
        const double error = measure_gram_error(config_, data_, exact_, map, {.threads = 1});
        return error * error;
    }

private:
    const RunConfig& config_;
    const Dataset& data_;
    const Matrix<double>& exact_;
    FeatureRecipe recipe_;
    Problem problem_;
};

// Squared errors of one seed.
struct SeedErrors {
    double full = 0.0;
    double none = 0.0;  // what is left with everything off: for Gram matrices that of the features themselves
    std::vector<double> alone;
    std::vector<double> removed;
};

std::vector<const Nonideality*> present_items(const ChipSettings& settings) {
    std::vector<const Nonideality*> items;
    for (const auto& n : nonidealities()) {
        if (n.present(settings)) items.push_back(&n);
    }
    return items;
}

ChipSettings settings_of(const Case& c, const std::vector<const Nonideality*>& items,
                         const ChipSettings& settings) {
    switch (c.kind) {
        case Case::Kind::none:
            return without_all(settings);
        case Case::Kind::alone:
            return only(settings, items[c.item]->name);
        case Case::Kind::removed:
            return without(settings, items[c.item]->name);
        case Case::Kind::full:
            break;
    }
    return settings;
}

double& place_of(const Case& c, SeedErrors& errors) {
    switch (c.kind) {
        case Case::Kind::none:
            return errors.none;
        case Case::Kind::alone:
            return errors.alone[c.item];
        case Case::Kind::removed:
            return errors.removed[c.item];
        case Case::Kind::full:
            break;
    }
    return errors.full;
}

std::vector<Case> all_cases(std::size_t items) {
    std::vector<Case> cases = {{.kind = Case::Kind::full}, {.kind = Case::Kind::none}};
    for (std::size_t i = 0; i < items; ++i) {
        cases.push_back({.kind = Case::Kind::alone, .item = i});
        cases.push_back({.kind = Case::Kind::removed, .item = i});
    }
    return cases;
}

using MakeTrial = std::function<std::unique_ptr<Trial>(std::uint64_t seed)>;

std::vector<SeedErrors> run_cases(const Args& args, const ChipSettings& settings,
                                  const std::vector<const Nonideality*>& items, const MakeTrial& make_trial,
                                  const Exec& exec) {
    const ReadTime time{.seconds = parse_duration(args.time, "--time"),
                        .spacing_seconds = parse_duration(args.spacing, "--spacing")};
    const auto cases = all_cases(items.size());
    std::vector<SeedErrors> errors;
    Progress progress(exec, "chips", cases.size() * args.chip.seeds.size());
    std::mutex mutex;
    std::uint64_t done = 0;
    for (const auto seed : args.chip.seeds) {
        const auto trial = make_trial(seed);
        SeedErrors row{.alone = std::vector<double>(items.size()),
                       .removed = std::vector<double>(items.size())};
        parallel_for(exec, cases.size(), [&](std::size_t k) {
            check_cancelled(exec);
            const Exec one{.threads = 1};
            auto chip =
                build_chip(settings_of(cases[k], items, settings), trial->problem(), args.plan, seed, one);
            age(chip, time);
            if (time.seconds > 0.0) compensate_by(chip, args.compensation, one);
            place_of(cases[k], row) = trial->squared_error(chip, seed);
            const std::scoped_lock lock(mutex);
            progress.update(++done);
        });
        errors.push_back(std::move(row));
    }
    return errors;
}

// What one non-ideality causes; squares are shares of what the chip adds to the squared error.
struct Explained {
    const Nonideality* item = nullptr;
    Summary alone_error;  // relative error (above what is there without a chip), signed root
    Summary alone;        // share
    Summary saved;        // share
};

std::vector<Explained> explain(const std::vector<const Nonideality*>& items,
                               const std::vector<SeedErrors>& errors) {
    std::vector<Explained> rows;
    for (std::size_t i = 0; i < items.size(); ++i) {
        std::vector<double> error;
        std::vector<double> alone;
        std::vector<double> saved;
        for (const auto& e : errors) {
            const double chip = e.full - e.none;
            const double mine = e.alone[i] - e.none;
            error.push_back(std::copysign(std::sqrt(std::abs(mine)), mine));
            alone.push_back(mine / chip);
            saved.push_back((e.full - e.removed[i]) / chip);
        }
        rows.push_back({.item = items[i],
                        .alone_error = summarize(std::move(error)),
                        .alone = summarize(std::move(alone)),
                        .saved = summarize(std::move(saved))});
    }
    std::ranges::stable_sort(rows, std::greater<>(), [](const Explained& e) { return e.saved.mean; });
    return rows;
}

constexpr double kVisible = 1e-3;  // share of the squared error

report::Plot make_chart(const std::string& title, const std::vector<Explained>& rows) {
    report::Plot chart{.title = title,
                       .y_label = "share of the squared error (%)",
                       .series = {{.label = "alone"}, {.label = "saved by removal"}},
                       .bars = true};
    for (const auto& row : rows) {
        // Bars too short to see would only take space.
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

Summary root_of(const std::vector<SeedErrors>& errors, double SeedErrors::*part) {
    std::vector<double> values(errors.size());
    std::ranges::transform(errors, values.begin(),
                           [part](const SeedErrors& e) { return std::sqrt(e.*part); });
    return summarize(std::move(values));
}

Json result_json(const std::vector<Explained>& rows) {
    Json list = Json::array();
    for (const auto& r : rows)
        list.push_back({{"name", r.item->name},
                        {"help", r.item->help},
                        {"alone_error", summary_json(r.alone_error)},
                        {"alone_share", summary_json(r.alone)},
                        {"saved_share", summary_json(r.saved)}});
    return list;
}

void print_rows(const std::vector<Explained>& rows, std::size_t seeds) {
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
    fmt::print("{}", format_table(table));
    fmt::print(
        "\nShares of the squared error{}. Sums differ from 100 where non-idealities act through each other:\n"
        "a converter's range costs nothing alone but leaves devices less conductance, so that their errors "
        "weigh more.\n",
        seeds > 1 ? ", ± half of the 95 % interval over chips" : "");
}

std::vector<std::string> absent_names(const ChipSettings& settings) {
    std::vector<std::string> names;
    for (const auto& n : nonidealities()) {
        if (!n.present(settings)) names.emplace_back(n.name);
    }
    return names;
}

struct Outcome {
    ChipSpec spec;
    ChipSettings settings;
    std::string what;  // of which error
    std::string where;
    std::vector<SeedErrors> errors;
    std::vector<Explained> rows;
};

void show(const Args& args, const Context& context, const Outcome& o) {
    const auto chart = make_chart(fmt::format("{}: causes of the {}", o.spec.name, o.what), o.rows);
    if (!args.figure.empty()) draw_file(chart, args.figure);
    const auto full = root_of(o.errors, &SeedErrors::full);
    const auto none = root_of(o.errors, &SeedErrors::none);
    if (context.json) {
        return print_json({{"chip", o.spec.name},
                           {"chip_hash", chip_hash(o.spec)},
                           {"error", o.what},
                           {"seconds", parse_duration(args.time, "--time")},
                           {"compensation", to_string(args.compensation)},
                           {"seeds", args.chip.seeds},
                           {"full_error", summary_json(full)},
                           {"error_without_all", summary_json(none)},
                           {"nonidealities", result_json(o.rows)},
                           {"absent", absent_names(o.settings)}});
    }
    fmt::print("{}\n", o.where);
    fmt::print("{} after programming, {} compensation, {} chip{}\n", args.time, to_string(args.compensation),
               args.chip.seeds.size(), args.chip.seeds.size() == 1 ? "" : "s");
    fmt::print("{}: {} %; without any non-ideality {} %\n\n", o.what, mean_text(full, 100.0),
               mean_text(none, 100.0));
    print_rows(o.rows, args.chip.seeds.size());
    fmt::print("Not in this chip: {}\n\n", fmt::join(absent_names(o.settings), ", "));
    fmt::print("{}", report::draw_text(chart));
    if (!args.figure.empty()) fmt::print("\n{} written\n", args.figure.string());
}

void finish(const Args& args, const Context& context, Outcome outcome, const MakeTrial& make_trial) {
    const auto items = present_items(outcome.settings);
    if (items.empty())
        fail(ErrorCode::bad_usage, fmt::format("{} has no non-ideality to explain", outcome.spec.name));
    outcome.errors = run_cases(args, outcome.settings, items, make_trial, context.exec);
    for (const auto& e : outcome.errors) {
        if (!(e.full > e.none))
            fail(ErrorCode::numeric, fmt::format("the chip adds nothing to the {}: no shares", outcome.what));
    }
    outcome.rows = explain(items, outcome.errors);
    show(args, context, outcome);
}

void run(Args& args, const Context& context, bool gram) {
    check_figure(args.figure);
    Outcome outcome;
    outcome.spec = load_spec(args.chip);
    outcome.settings = make_settings(outcome.spec, args.problem);
    if (!gram) {
        const ProblemSource source(args.problem);
        check_fits_chip(outcome.spec, source);
        outcome.what = "relative error of products";
        outcome.where =
            fmt::format("{}\n{}, {} products", chip_line(outcome.spec, source.rows(), source.cols()),
                        source.description(), source.count());
        return finish(args, context, std::move(outcome),
                      [&](std::uint64_t seed) { return std::make_unique<ProductTrial>(source, seed); });
    }
    finish_run_args(args.gram);
    auto& config = args.gram.config;
    // What auto stands for on a chip.
    if (!config.truncation) config.truncation = 3.0;
    const auto data = load_dataset(config.dataset, load_options(config, context.data_dir), context.exec);
    const auto exact = reference_gram(config, data, context.exec);
    const auto sizes = run_sizes(config, static_cast<std::int64_t>(data.train.x.cols()));
    outcome.what = "Gram error";
    outcome.where = fmt::format(
        "{}\n{}, {} kernel by {}, Gram matrix of {} test rows",
        chip_line(outcome.spec, static_cast<std::size_t>(sizes.d), static_cast<std::size_t>(sizes.m)),
        data.name, to_string(config.kernel), to_string(config.sampler), exact.rows());
    finish(args, context, std::move(outcome), [&](std::uint64_t seed) {
        return std::make_unique<GramTrial>(config, data, exact, args.problem.calibration_count, seed);
    });
}

}  // namespace

void add_chip_explain(CLI::App& chip, Context& context) {
    auto args = std::make_shared<Args>();
    args->gram.config.gram_rows = 500;
    auto* verb =
        add_verb(chip, "explain", "How much of the error each non-ideality causes",
                 {"imka chip explain --time 1d --figure causes.svg",
                  "imka chip explain --dataset ringnorm --kernel rbf --log-ratio 4 --seeds 0..2 --json"});
    add_common_options(*verb, context);
    add_chip_options(*verb, args->chip);
    add_seed_options(*verb, args->chip);
    add_problem_options(*verb, args->problem);
    verb->add_option("--time", args->time, "Time since programming: 90, 30min, 1h, 7d, 1y")
        ->capture_default_str();
    verb->add_option("--spacing", args->spacing, "Time between two products")->capture_default_str();
    add_enum_option(*verb, "--compensation", args->compensation, "What is done about drift");
    verb->add_option("--figure", args->figure, "Draw it: FILE.svg, .pdf or .png (needs gnuplot)");
    add_field_options(*verb, fields(args->gram.config),
                      {"dataset", "protocol", "split_seed", "gram_rows", "kernel", "gamma", "sampler",
                       "norms", "form", "truncation", "n_components", "log_ratio"},
                      args->gram.given);
    verb->callback([args, &context] { run(*args, context, !args->gram.given.empty()); });
}

}  // namespace imka::app

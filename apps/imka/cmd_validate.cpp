// imka validate: the FP32 half against published per-seed results.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/experiment/validate.hpp"
#include "sweep_progress.hpp"

namespace imka::app {
namespace {

constexpr double kShareWanted = 0.9;  // of cells within 3 combined standard errors

struct ValidateArgs {
    ValidateConfig config;
    std::string seeds = "0..9";
    bool all_cells = false;
};

std::vector<std::string> cell_row(const Cell& c) {
    const double f = c.metric == Metric::acc ? 100.0 : 1.0;
    const int digits = c.metric == Metric::acc ? 2 : 4;
    const auto text = [&](const Summary& s) {
        return fmt::format("{:.{}f} ± {:.{}f}", f * s.mean, digits, f * standard_error(s), digits);
    };
    return {c.dataset,
            std::string(to_string(c.kernel)),
            std::string(to_string(c.sampler)),
            fmt::format("{}", c.log_ratio),
            c.metric == Metric::acc ? "accuracy %" : "Gram error",
            text(c.published),
            text(c.ours),
            fmt::format("{:+.1f}", c.deviation()),
            c.agrees() ? "" : c.reason()};
}

struct Count {
    int agree = 0;
    int all = 0;
};

void print_report(const std::vector<Cell>& cells, bool all_cells) {
    std::vector<std::string> order;
    std::map<std::string, std::map<Metric, Count>> counts;
    std::map<Metric, Count> total;
    std::vector<std::vector<std::string>> listed = {{"data set", "kernel", "sampler", "r", "quantity",
                                                     "published ± se", "imka ± se", "difference / se",
                                                     "reason"}};
    for (const auto& c : cells) {
        if (!counts.contains(c.dataset)) order.push_back(c.dataset);
        for (auto* count : {&counts[c.dataset][c.metric], &total[c.metric]}) {
            count->agree += c.agrees() ? 1 : 0;
            count->all += 1;
        }
        if (all_cells || !c.agrees()) listed.push_back(cell_row(c));
    }
    const auto text = [](const Count& c) { return fmt::format("{} of {}", c.agree, c.all); };
    std::vector<std::vector<std::string>> table = {{"data set", "Gram error", "accuracy"}};
    for (const auto& name : order)
        table.push_back({name, text(counts[name][Metric::err]), text(counts[name][Metric::acc])});
    table.push_back({"all", text(total[Metric::err]), text(total[Metric::acc])});
    fmt::print("Cells whose mean is within 3 combined standard errors of the published one:\n\n{}\n",
               format_table(table));
    if (listed.size() > 1)
        fmt::print("{}:\n\n{}", all_cells ? "All cells" : "The others", format_table(listed));
}

nlohmann::ordered_json report_json(const std::vector<Cell>& cells) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& c : cells) {
        list.push_back(
            {{"dataset", c.dataset},
             {"kernel", to_string(c.kernel)},
             {"sampler", to_string(c.sampler)},
             {"log_ratio", c.log_ratio},
             {"m", c.m},
             {"metric", to_string(c.metric)},
             {"published",
              {{"mean", c.published.mean}, {"std", c.published.std}, {"n", c.published.values.size()}}},
             {"ours", {{"mean", c.ours.mean}, {"std", c.ours.std}, {"n", c.ours.values.size()}}},
             {"deviation", c.deviation()},
             {"agrees", c.agrees()}});
    }
    return list;
}

// Cells beyond 3 standard errors if nothing differed (Student's law for the few seeds behind each mean).
double expected_by_chance(const std::vector<Cell>& cells) {
    double sum = 0.0;
    for (const auto& c : cells) {
        sum += 1.0 - student_probability(3.0, c.published.values.size() + c.ours.values.size() - 2);
    }
    return sum;
}

void run(const ValidateArgs& args, Context& context) {
    auto config = args.config;
    if (config.output.empty()) config.output = "runs";
    config.data_dir = context.data_dir;
    config.seeds = Codec<std::vector<std::uint64_t>>::parse(args.seeds, "seeds");
    if (config.seeds.size() < 2)
        fail(ErrorCode::bad_config, "seeds: a standard error needs at least two seeds");
    std::optional<SweepProgress> progress;
    if (context.exec.progress != nullptr) {
        progress.emplace();
        config.on_status = [&](const SweepStatus& status) { progress->show(status); };
    }
    const auto cells = validate_fp32(config, context.exec);
    progress.reset();
    const auto agree = std::count_if(cells.begin(), cells.end(), [](const Cell& c) { return c.agrees(); });
    const double share = static_cast<double>(agree) / static_cast<double>(cells.size());
    if (context.json) {
        fmt::print(
            "{}\n",
            nlohmann::ordered_json{{"agree", agree}, {"cells", cells.size()}, {"list", report_json(cells)}}
                .dump());
    } else {
        print_report(cells, args.all_cells);
        fmt::print(
            "\n{} of {} cells agree ({:.1f} %; at least {:.0f} % are wanted). Chance alone would put about "
            "{:.1f} beyond 3 "
            "standard errors.\n",
            agree, cells.size(), 100.0 * share, 100.0 * kShareWanted, expected_by_chance(cells));
    }
    if (share < kShareWanted) context.exit_code = 1;
}

}  // namespace

void add_validate(CLI::App& root, Context& context) {
    auto args = std::make_shared<ValidateArgs>();
    auto* verb = add_verb(
        root, "validate", "Compare FP32 results with published per-seed results, cell by cell",
        {"imka validate --measured measured.csv --data-dir data --output runs",
         "imka validate --measured measured.csv --data-dir data --datasets letter --seeds 0..4 --all-cells"});
    add_common_options(*verb, context);
    verb->add_option("--measured", args->config.measured, "CSV with the published per-seed results")
        ->required()
        ->check(CLI::ExistingFile);
    verb->add_option("--output", args->config.output,
                     "Folder for the folders of records ridge_measured and liu; a stopped job goes on from "
                     "them, and 'imka sweep' fills and shares them too")
        ->default_str("runs");
    verb->add_option("--datasets", args->config.datasets, "Only these data sets")->delimiter(',');
    verb->add_option("--seeds", args->seeds, "Seeds of our runs")->capture_default_str();
    verb->add_flag("--all-cells", args->all_cells, "List every cell, not only those that differ");
    verb->callback([args, &context] { run(*args, context); });
}

}  // namespace imka::app

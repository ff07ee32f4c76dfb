#include "imka/experiment/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/data/registry.hpp"
#include "imka/experiment/record.hpp"

namespace imka {
namespace {

constexpr std::string_view kHeader = "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value";

// What tells the runs of a cell apart from those of other cells.
struct CellKey {
    std::string dataset;  // as published
    Kernel kernel = Kernel::rbf;
    Sampler sampler = Sampler::rff;
    std::int64_t m = 0;
    // clang-tidy 14 takes the zero inside a defaulted comparison for a pointer.
    auto operator<=>(const CellKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

CellKey key_of(const Cell& cell) {
    return {cell.dataset, cell.kernel, cell.sampler, cell.m};
}

// The experiment that runs a published data set, and how its name ends there.
struct Source {
    std::string experiment;
    std::string suffix;
};
const std::array<Source, 2> kSources = {
    {{.experiment = "liu", .suffix = "-liu-replication"}, {.experiment = "ridge_measured", .suffix = ""}}};

const Source& source_of(const std::string& dataset) {
    return dataset.ends_with(kSources[0].suffix) ? kSources[0] : kSources[1];
}

std::vector<std::string> split_csv(const std::string& line) {
    std::vector<std::string> parts;
    std::stringstream stream(line);
    for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
    return parts;
}

bool has_random_split(const std::string& dataset) {
    const auto* set = find_set(dataset);
    return set != nullptr && set->random_split;
}

// The keys of the runs of each cell, one a seed.
using RunsOfCells = std::map<CellKey, std::vector<std::string>>;

// Runs of one experiment that the cells ask for; the others leave the plan.
RunsOfCells choose_runs(const std::vector<Cell>& cells, const Source& source, SweepPlan& plan) {
    RunsOfCells runs;
    for (const auto& cell : cells) {
        if (&source_of(cell.dataset) == &source) runs.try_emplace(key_of(cell));
    }
    std::erase_if(plan.runs, [&](const PlannedRun& run) {
        const auto& config = plan.points[run.point].config;
        const auto sizes = run_sizes(config, static_cast<std::int64_t>(plan.data[run.data].facts.features));
        const auto place =
            runs.find({config.dataset + source.suffix, config.kernel, config.sampler, sizes.m});
        if (place == runs.end()) return true;
        place->second.push_back(run.key);
        return false;
    });
    for (const auto& [key, list] : runs) {
        if (list.empty()) {
            fail(ErrorCode::bad_data,
                 fmt::format("the experiment {} has no run for {}, {}, {}, m = {}", source.experiment,
                             key.dataset, to_string(key.kernel), to_string(key.sampler), key.m));
        }
    }
    return runs;
}

double result_of(const Record& record, Metric metric) {
    if (!record.ok()) {
        fail(ErrorCode::bad_data,
             fmt::format("the run {} of {} failed: {}", record.key, record.setting("dataset"), record.error));
    }
    return record.results.at(metric == Metric::acc ? "accuracy" : "gram_error");
}

void fill_in(const RunsOfCells& runs, const std::filesystem::path& folder, std::vector<Cell>& cells) {
    std::unordered_map<std::string, Record> records;
    for (auto& record : read_records(folder).records) {
        auto key = record.key;
        records.emplace(std::move(key), std::move(record));
    }
    for (auto& cell : cells) {
        const auto place = runs.find(key_of(cell));
        if (place == runs.end()) continue;
        std::vector<double> values;
        for (const auto& key : place->second) values.push_back(result_of(records.at(key), cell.metric));
        cell.ours = summarize(std::move(values));
    }
}

void run_source(const Source& source, const ValidateConfig& config, const Exec& exec,
                std::vector<Cell>& cells) {
    auto experiment = find_experiment(source.experiment);
    override_setting(experiment, "seeds", fmt::format("{}", fmt::join(config.seeds, ",")));
    auto plan = plan_sweep(experiment, config.data_dir, exec);
    const auto runs = choose_runs(cells, source, plan);
    const auto folder = config.output / source.experiment;
    (void)run_sweep(plan, {.output = folder, .data_dir = config.data_dir, .on_status = config.on_status},
                    exec);
    fill_in(runs, folder, cells);
}

double parse_value(const std::string& text, const std::string& place) {
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
        fail(ErrorCode::bad_data, fmt::format("{}: '{}' is not a number", place, text));
    }
    return value;
}

}  // namespace

double Cell::deviation() const {
    const double difference = ours.mean - published.mean;
    const double error = std::hypot(standard_error(ours), standard_error(published));
    if (error > 0.0) return difference / error;
    return difference == 0.0 ? 0.0 : std::copysign(INFINITY, difference);
}

std::string Cell::reason() const {
    const double runs = ours.std > 0.0 ? std::abs(ours.mean - published.mean) / ours.std : INFINITY;
    if (random_split) {
        return fmt::format(
            "one unknown split there; the difference is {:.1f} deviations of our runs, each with its own "
            "split",
            runs);
    }
    return fmt::format("same split: chance or a real difference ({:.1f} deviations of our runs)", runs);
}

bool Cell::agrees() const {
    return std::abs(deviation()) <= 3.0;
}

std::vector<Cell> read_published(const std::filesystem::path& path, std::string_view backend) {
    std::ifstream in(path);
    std::string line;
    if (!std::getline(in, line)) fail(ErrorCode::io, fmt::format("{}: cannot be read", path.string()));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line != kHeader)
        fail(ErrorCode::bad_data, fmt::format("{}: line 1: the header must be {}", path.string(), kHeader));
    using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;
    std::map<Key, std::size_t> position;
    std::vector<Cell> cells;
    std::vector<std::vector<double>> values;
    for (std::size_t number = 2; std::getline(in, line); ++number) {
        const auto place = fmt::format("{}: line {}", path.string(), number);
        const auto f = split_csv(line);
        if (f.size() != 10) fail(ErrorCode::bad_data, fmt::format("{}: {} fields, not 10", place, f.size()));
        // Attention is another experiment's business.
        if (f[7] != backend || f[0] == "attention") continue;
        const auto [it, fresh] = position.try_emplace(Key{f[0], f[1], f[2], f[5], f[8]}, cells.size());
        if (fresh) {
            cells.push_back({.dataset = f[0],
                             .kernel = parse_enum<Kernel>(f[1]),
                             .sampler = parse_enum<Sampler>(f[2]),
                             .log_ratio = static_cast<std::int64_t>(parse_value(f[3], place)),
                             .m = static_cast<std::int64_t>(parse_value(f[5], place)),
                             .metric = parse_enum<Metric>(f[8]),
                             .random_split = has_random_split(f[0])});
            values.emplace_back();
        }
        values[it->second].push_back(parse_value(f[9], place));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i].published = summarize(std::move(values[i]));
    return cells;
}

std::vector<Cell> validate_fp32(const ValidateConfig& config, const Exec& exec) {
    auto cells = read_published(config.measured);
    if (!config.datasets.empty()) {
        std::erase_if(cells, [&](const Cell& c) {
            return std::ranges::find(config.datasets, c.dataset) == config.datasets.end();
        });
    }
    if (cells.empty()) fail(ErrorCode::bad_config, "none of the named data sets has published FP32 results");
    for (const auto& source : kSources) {
        const auto belongs = [&](const Cell& c) { return &source_of(c.dataset) == &source; };
        if (std::ranges::any_of(cells, belongs)) run_source(source, config, exec, cells);
    }
    return cells;
}

}  // namespace imka

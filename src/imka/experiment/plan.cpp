// Plans a sweep: the runs, their data sets, order and cost.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "imka/base/error.hpp"
#include "imka/experiment/journal.hpp"
#include "imka/experiment/sweep.hpp"

namespace imka {
namespace {

constexpr double kRecordBytes = 1300.0;

using FactsKey = std::tuple<std::string, std::string, Protocol, Task>;
using DataKey = std::pair<FactsKey, std::uint64_t>;

FactsKey facts_key(const RunConfig& c) {
    auto copy = c;
    return {c.dataset, to_json(run_family(c).input_fields(copy)), c.protocol, c.task};
}

// Collects runs and the data sets that they share.
class Planner {
public:
    Planner(SweepPlan& plan, const std::filesystem::path& data_dir, const Exec& exec)
        : plan_(plan), kind_(run_kind(plan.experiment.kind)), data_dir_(data_dir), exec_(exec) {}

    void add(std::size_t point) {
        check(plan_.points[point]);
        auto& c = plan_.points[point];
        const auto* known = facts_of(c);
        if (known == nullptr) return;
        const auto& facts = *known;
        if (c.config.performer) c.config.performer->origin = facts.origin;
        const auto cost = kind_.cost(c.config, facts);
        for (const auto seed : c.config.seeds) {
            const auto config = run_config(c, seed);
            auto key = run_key(plan_.experiment.kind, settings_text(config), facts.source_sha256);
            if (!keys_.insert(key).second) continue;
            plan_.runs.push_back({.point = point,
                                  .seed = seed,
                                  .data = data_of(config, facts),
                                  .key = std::move(key),
                                  .cost = cost});
        }
    }

private:
    // A chip file may change before its run starts: the key contains its current hash.
    void check(RunPoint& c) const {
        try {
            kind_.check(c.config);
            pin_chip(c.config);
        } catch (const Error& e) {
            fail(e.code(), fmt::format("{}: {}: {}", plan_.experiment.place, c.label, e.what()));
        }
    }
    // nullptr if the inputs are missing and the kind of run allows it.
    const DatasetFacts* facts_of(const RunPoint& c) {
        const auto key = facts_key(c.config);
        const auto place = facts_.find(key);
        if (place != facts_.end()) return place->second ? &*place->second : nullptr;
        try {
            return &*facts_.emplace(key, kind_.family.facts(c.config, data_dir_, exec_)).first->second;
        } catch (const Error& e) {
            if (kind_.may_lack_inputs && e.code() == ErrorCode::missing_part) {
                plan_.missing.emplace_back(e.what());
                facts_.emplace(key, std::nullopt);
                return nullptr;
            }
            fail(e.code(), fmt::format("{}: {}: {}", plan_.experiment.place, c.label, e.what()));
        }
    }
    // If the split seed has no effect, all seeds share one copy.
    std::size_t data_of(RunConfig config, const DatasetFacts& facts) {
        if (!facts.uses_split_seed) config.split_seed = 0;
        const auto [place, is_new] =
            data_.try_emplace(DataKey{facts_key(config), config.split_seed}, plan_.data.size());
        if (is_new) plan_.data.push_back({.load = std::move(config), .facts = facts});
        return place->second;
    }

    SweepPlan& plan_;
    const RunKind& kind_;
    const std::filesystem::path& data_dir_;
    const Exec& exec_;
    std::map<FactsKey, std::optional<DatasetFacts>> facts_;
    std::map<DataKey, std::size_t> data_;
    std::unordered_set<std::string> keys_;
};

// By data set, largest runs first, and largest first within each: all cores then finish at about the same
// time.
void sort_runs(SweepPlan& plan) {
    std::vector<double> largest(plan.data.size());
    for (const auto& run : plan.runs) largest[run.data] = std::max(largest[run.data], run.cost.seconds);
    std::ranges::stable_sort(plan.runs, [&](const PlannedRun& a, const PlannedRun& b) {
        if (a.data == b.data) return a.cost.seconds > b.cost.seconds;
        if (largest[a.data] != largest[b.data]) return largest[a.data] > largest[b.data];
        return a.data < b.data;
    });
}

}  // namespace

SweepPlan plan_sweep(const Experiment& experiment, const std::filesystem::path& data_dir, const Exec& exec) {
    SweepPlan plan{.experiment = experiment, .points = expand(experiment)};
    Planner planner(plan, data_dir, exec);
    for (std::size_t c = 0; c < plan.points.size(); ++c) {
        check_cancelled(exec);
        planner.add(c);
    }
    sort_runs(plan);
    return plan;
}

RunConfig run_config(const SweepPlan& plan, const PlannedRun& run) {
    return run_config(plan.points[run.point], run.seed);
}

SweepForecast forecast_sweep(const SweepPlan& plan, const SweepConfig& config, const Exec& exec) {
    SweepForecast forecast{.runs = plan.runs.size()};
    RecordIndex index(config.output / "records");
    if (std::filesystem::is_directory(config.output / "records")) index.refresh();
    double left = 0.0;
    double known = 0.0;
    double taken = 0.0;
    for (const auto& run : plan.runs) {
        const auto entry = index.find(run.key);
        if (entry.state == RecordIndex::State::done) {
            ++forecast.done;
            known += run.cost.seconds;
            taken += entry.wall_seconds;
            continue;
        }
        if (entry.state == RecordIndex::State::failed) {
            ++forecast.failed;
            if (!config.retry_failed) continue;
        }
        ++forecast.to_do;
        left += run.cost.seconds;
    }
    forecast.from_records = known > 0.0 && taken > 0.0;
    const double factor = forecast.from_records ? taken / known : measure_machine_factor(exec);
    forecast.seconds = left * factor / thread_count(exec);
    forecast.disk_bytes = kRecordBytes * static_cast<double>(forecast.to_do);
    return forecast;
}

}  // namespace imka

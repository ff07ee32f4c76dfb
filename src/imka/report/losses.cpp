// Accuracy that chips lose against FP32.
#include "imka/report/averages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "imka/experiment/kinds.hpp"

namespace imka::report {
namespace {

// Settings that a run on a chip and its FP32 run share. Norms and truncation are not among them: a chip may
// need another matrix.
constexpr std::array<std::string_view, 9> kCommon = {
    "dataset", "protocol", "kernel", "sampler", "log_ratio", "n_components", "gamma", "alpha", "split_seed"};

// Settings that make no new row: those of a seed, and the chip, which every row names.
constexpr std::array<std::string_view, 4> kNoRow = {"backend", "seeds", "chip_hash", "chip_seed"};

bool on_chip(const Record& r) {
    return r.setting("backend") != "fp32";
}

std::string pair_key(const Record& r) {
    std::string key = fmt::format("{}\n{}", r.experiment, r.seed);
    for (const auto name : kCommon) key += "\n" + r.setting(std::string(name));
    return key;
}

// The FP32 run with the usual norms if there are several.
std::map<std::string, const Record*> references(const std::vector<Record>& records) {
    std::map<std::string, const Record*> out;
    for (const auto& r : records) {
        if (on_chip(r) || recorded_kind(r.kind).tests_models || !r.results.contains("accuracy")) continue;
        auto& place = out[pair_key(r)];
        if (place == nullptr || r.setting("norms") == "auto") place = &r;
    }
    return out;
}

template <class List>
bool is_in(const List& list, std::string_view name) {
    return std::ranges::find(list, name) != list.end();
}

// By data set and setting: how many chip runs of an experiment have each value.
using ValueCounts = std::map<std::string, std::map<std::string, std::map<std::string, std::size_t>>>;

ValueCounts count_values(const std::vector<Record>& records, const std::string& experiment) {
    ValueCounts counts;
    for (const auto& r : records) {
        if (r.experiment != experiment || !on_chip(r)) continue;
        for (const auto& [name, value] : r.config) {
            if (!is_in(kCommon, name) && !is_in(kNoRow, name)) ++counts[r.setting("dataset")][name][value];
        }
    }
    return counts;
}

using Usual = std::map<std::string, std::map<std::string, std::string>>;  // by data set and setting

// The most common value of each setting that varies within a data set; it is not shown. Settings that differ
// only between data sets do not make another row.
Usual usual_values(const std::vector<Record>& records, const std::string& experiment) {
    const auto counts = count_values(records, experiment);
    std::set<std::string> varying;
    for (const auto& [dataset, settings] : counts) {
        for (const auto& [name, values] : settings) {
            if (values.size() > 1) varying.insert(name);
        }
    }
    Usual usual;
    for (const auto& [dataset, settings] : counts) {
        for (const auto& [name, values] : settings) {
            if (!varying.contains(name)) continue;
            usual[dataset][name] =
                std::ranges::max_element(values, {}, [](const auto& c) { return c.second; })->first;
        }
    }
    return usual;
}

// As in the settings: m = 2^r d - r of protocol `measured` gives a different ratio for every d.
std::string size_of(const Record& r) {
    const auto ratio = r.setting("log_ratio");
    return ratio == "auto" ? "D = " + r.setting("n_components") : "r = " + ratio;
}

std::string chip_label(const Record& r, const Usual& usual) {
    std::string label = r.setting("backend");
    const auto found = usual.find(r.setting("dataset"));
    if (found == usual.end()) return label;
    for (const auto& [name, value] : found->second) {
        const auto own = r.setting(name);
        if (own != value) label += fmt::format(", {} {}", name, own.empty() ? "none" : own);
    }
    return label;
}

using Losses = std::map<std::string, std::vector<double>>;  // by data set

double mean_of(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double v : values) sum += v;
    return sum / static_cast<double>(values.size());
}

double variance_of_mean(const std::vector<double>& values) {
    const double mean = mean_of(values);
    double squares = 0.0;
    for (const double v : values) squares += (v - mean) * (v - mean);
    const auto n = static_cast<double>(values.size());
    return squares / (n - 1.0) / n;
}

void sum_up(const Losses& losses, LossRow& row) {
    const auto n = static_cast<double>(losses.size());
    double variance = 0.0;
    bool has_spread = true;
    for (const auto& [dataset, values] : losses) {
        const double mean = mean_of(values);
        row.mean += mean / n;
        if (values.size() > 1)
            variance += variance_of_mean(values);
        else
            has_spread = false;
        row.pairs += values.size();
        if (row.worst.empty() || mean > row.most) {
            row.most = mean;
            row.worst = dataset;
        }
    }
    row.datasets = losses.size();
    row.error = has_spread ? std::sqrt(variance) / n : 0.0;
}

}  // namespace

std::vector<LossRow> losses_of(const std::vector<Record>& records) {
    const auto exact = references(records);
    std::map<std::string, Usual> usual;  // by experiment
    for (const auto& r : records) {
        if (!usual.contains(r.experiment)) usual[r.experiment] = usual_values(records, r.experiment);
    }
    std::vector<LossRow> rows;
    std::vector<Losses> losses;
    std::map<std::string, std::size_t> places;
    for (const auto& r : records) {
        const auto reference = exact.find(pair_key(r));
        if (!on_chip(r) || reference == exact.end() || !r.results.contains("accuracy")) continue;
        LossRow row{.experiment = r.experiment,
                    .kernel = r.setting("kernel"),
                    .sampler = r.setting("sampler"),
                    .size = size_of(r),
                    .chip = chip_label(r, usual.at(r.experiment))};
        const auto name =
            fmt::format("{}\n{}\n{}\n{}\n{}", row.experiment, row.kernel, row.sampler, row.size, row.chip);
        const auto [place, is_new] = places.try_emplace(name, rows.size());
        if (is_new) {
            rows.push_back(std::move(row));
            losses.emplace_back();
        }
        losses[place->second][r.setting("dataset")].push_back(reference->second->results.at("accuracy") -
                                                              r.results.at("accuracy"));
    }
    for (std::size_t i = 0; i < rows.size(); ++i) sum_up(losses[i], rows[i]);
    std::ranges::stable_sort(rows, [](const LossRow& a, const LossRow& b) {
        return std::tie(a.experiment, a.kernel, a.sampler, a.size, a.chip) <
               std::tie(b.experiment, b.kernel, b.sampler, b.size, b.chip);
    });
    return rows;
}

}  // namespace imka::report

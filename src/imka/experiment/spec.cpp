#include "imka/experiment/spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"

namespace imka {
namespace embedded {
extern const std::string_view experiment_ablation;
extern const std::string_view experiment_drift;
extern const std::string_view experiment_fidelity;
extern const std::string_view experiment_liu;
extern const std::string_view experiment_mitigation;
extern const std::string_view experiment_replication;
extern const std::string_view experiment_ridge;
extern const std::string_view experiment_ridge_fp32;
extern const std::string_view experiment_ridge_measured;
extern const std::string_view experiment_smoke;
}  // namespace embedded

namespace {

// The value that stands for the seed of the run.
constexpr std::string_view kOwnSeed = "seed";

bool is_own_seed(const std::string& name, const std::string& value) {
    return name == "split_seed" && value == kOwnSeed;
}

void apply(const std::string& name, const std::string& value, const std::string& place, RunPoint& to) {
    if (name == "split_seed") to.split_by_seed = value == kOwnSeed;
    if (is_own_seed(name, value)) return;
    try {
        set_field(fields(to.config), name, value);
    } catch (const Error& e) {
        fail(e.code(), fmt::format("{}: {}", place, e.what()));
    }
}

void apply(const SettingText& setting, RunPoint& to) {
    apply(setting.name, setting.value, setting.place, to);
}

std::string trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::vector<std::string> list_of(std::string_view text, const std::string& place) {
    text.remove_prefix(1);
    text.remove_suffix(1);
    std::vector<std::string> values;
    while (true) {
        const auto comma = text.find(',');
        values.push_back(trimmed(text.substr(0, comma)));
        if (values.back().empty())
            fail(ErrorCode::bad_config, fmt::format("{}: empty value in the list", place));
        if (comma == std::string_view::npos) return values;
        text.remove_prefix(comma + 1);
    }
}

std::uint64_t seeds_in(const std::string& text) {
    return Codec<std::vector<std::uint64_t>>::parse(text, "seeds").size();
}

// Iterates over the points of a grid; the last axis varies fastest.
class GridWalk {
public:
    explicit GridWalk(const std::vector<Axis>& axes) : axes_(axes), at_(axes.size()) {}
    bool step() {
        for (std::size_t a = axes_.size(); a-- > 0;) {
            if (++at_[a] < axes_[a].values.size()) return true;
            at_[a] = 0;
        }
        return false;
    }
    const std::string& value(std::size_t axis) const { return axes_[axis].values[at_[axis]]; }

private:
    const std::vector<Axis>& axes_;
    std::vector<std::size_t> at_;
};

std::string label_of(const std::vector<std::pair<std::string, std::string>>& parts) {
    std::string label;
    for (const auto& [name, value] : parts)
        label += fmt::format("{}{}={}", label.empty() ? "" : ", ", name, value);
    return label.empty() ? std::string("the settings of base") : label;
}

RunPoint combine(const Experiment& experiment, const RunPoint& start, const std::vector<SettingText>* one,
                 const GridWalk& walk) {
    RunPoint c = start;
    std::vector<std::pair<std::string, std::string>> parts;
    if (one != nullptr) {
        for (const auto& setting : *one) parts.emplace_back(setting.name, setting.value);
    }
    for (std::size_t a = 0; a < experiment.grid.size(); ++a) {
        const auto& axis = experiment.grid[a];
        if (axis.name == "seeds") continue;
        apply(axis.name, walk.value(a), axis.place, c);
        parts.emplace_back(axis.name, walk.value(a));
    }
    c.label = label_of(parts);
    try {
        validate(c.config);
    } catch (const Error& e) {
        fail(e.code(), fmt::format("{}: {}: {}", experiment.place, c.label, e.what()));
    }
    return c;
}

// Settings of base and the case, before the grid, and the seeds of the grid, which are one value.
RunPoint start_of(const Experiment& experiment, const std::vector<SettingText>* one) {
    RunPoint c;
    for (const auto& setting : experiment.base) apply(setting, c);
    if (one != nullptr) {
        for (const auto& setting : *one) apply(setting, c);
    }
    for (const auto& axis : experiment.grid) {
        if (axis.name == "seeds") apply(axis.name, axis.values.front(), axis.place, c);
    }
    return c;
}

}  // namespace

void override_setting(Experiment& experiment, const std::string& name, const std::string& text) {
    const auto place = fmt::format("--set {}={}", name, text);
    const bool is_list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
    std::vector<std::string> values = is_list ? list_of(text, place) : std::vector<std::string>{text};
    if (name == "seeds") values = {fmt::format("{}", fmt::join(values, ","))};
    RunPoint scratch;
    for (const auto& value : values) apply(name, value, place, scratch);
    if (std::set<std::string>(values.begin(), values.end()).size() != values.size())
        fail(ErrorCode::bad_config, fmt::format("{}: duplicate value", place));

    const auto same = [&](const auto& s) { return s.name == name; };
    std::erase_if(experiment.base, same);
    for (auto& one : experiment.cases) std::erase_if(one, same);
    const auto axis = std::ranges::find_if(experiment.grid, same);
    if (axis != experiment.grid.end()) {
        axis->values = std::move(values);
    } else if (values.size() > 1) {
        experiment.grid.push_back({.name = name, .values = std::move(values), .place = place});
    } else {
        experiment.base.push_back({.name = name, .value = values.front(), .place = place});
    }
}

std::uint64_t count_runs(const Experiment& experiment) {
    const auto seeds_of = [](const std::vector<SettingText>& settings, std::uint64_t otherwise) {
        for (const auto& s : settings) {
            if (s.name == "seeds") return seeds_in(s.value);
        }
        return otherwise;
    };
    double points = 1.0;
    std::uint64_t seeds = seeds_of(experiment.base, 1);
    for (const auto& axis : experiment.grid) {
        if (axis.name == "seeds") {
            seeds = seeds_in(axis.values.front());
        } else {
            points *= static_cast<double>(axis.values.size());
        }
    }
    double sets_of_seeds = experiment.cases.empty() ? static_cast<double>(seeds) : 0.0;
    for (const auto& one : experiment.cases) sets_of_seeds += static_cast<double>(seeds_of(one, seeds));
    const double runs = points * sets_of_seeds;
    if (runs > static_cast<double>(kMostRuns)) {
        fail(ErrorCode::bad_config,
             fmt::format("{}: {:.0f} runs; at most {} are allowed", experiment.place, runs, kMostRuns));
    }
    return static_cast<std::uint64_t>(runs);
}

std::vector<RunPoint> expand(const Experiment& experiment) {
    std::vector<const std::vector<SettingText>*> cases;
    for (const auto& one : experiment.cases) cases.push_back(&one);
    if (cases.empty()) cases.push_back(nullptr);
    (void)count_runs(experiment);
    std::vector<RunPoint> all;
    for (const auto* one : cases) {
        const auto start = start_of(experiment, one);
        GridWalk walk(experiment.grid);
        do {
            all.push_back(combine(experiment, start, one, walk));
        } while (walk.step());
    }
    return all;
}

RunConfig run_config(const RunPoint& point, std::uint64_t seed) {
    RunConfig config = point.config;
    config.seeds = {seed};
    if (point.split_by_seed) config.split_seed = seed;
    return config;
}

std::span<const KnownExperiment> known_experiments() {
    static const std::array list = {
        KnownExperiment{"ridge", embedded::experiment_ridge},
        KnownExperiment{"fidelity", embedded::experiment_fidelity},
        KnownExperiment{"ridge_fp32", embedded::experiment_ridge_fp32},
        KnownExperiment{"ridge_measured", embedded::experiment_ridge_measured},
        KnownExperiment{"liu", embedded::experiment_liu},
        KnownExperiment{"mitigation", embedded::experiment_mitigation},
        KnownExperiment{"drift", embedded::experiment_drift},
        KnownExperiment{"ablation", embedded::experiment_ablation},
        KnownExperiment{"replication", embedded::experiment_replication},
        KnownExperiment{"smoke", embedded::experiment_smoke},
    };
    return list;
}

Experiment find_experiment(const std::string& name_or_path) {
    std::vector<std::string_view> names;
    for (const auto& known : known_experiments()) {
        if (known.name == name_or_path) return parse_experiment(known.text, name_or_path);
        names.push_back(known.name);
    }
    if (!std::filesystem::exists(name_or_path)) {
        fail(ErrorCode::bad_usage, fmt::format("'{}' is neither a known experiment ({}) nor a file",
                                               name_or_path, join_names(names)));
    }
    return read_experiment(name_or_path);
}

}  // namespace imka

#include "imka/experiment/spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/io/text.hpp"
#include "imka/io/yaml.hpp"

namespace imka {
namespace embedded {
extern const std::string_view experiment_ablation;
extern const std::string_view experiment_attention_error;
extern const std::string_view experiment_attention_error_trained;
extern const std::string_view experiment_attention_scaling;
extern const std::string_view experiment_choromanski;
extern const std::string_view experiment_drift;
extern const std::string_view experiment_embedding_init;
extern const std::string_view experiment_fidelity;
extern const std::string_view experiment_fidelity_blind;
extern const std::string_view experiment_full_test;
extern const std::string_view experiment_hwa_noise;
extern const std::string_view experiment_liu;
extern const std::string_view experiment_mitigation;
extern const std::string_view experiment_performer_drift;
extern const std::string_view experiment_relu;
extern const std::string_view experiment_replication;
extern const std::string_view experiment_resampling;
extern const std::string_view experiment_ridge;
extern const std::string_view experiment_ridge_fp32;
extern const std::string_view experiment_ridge_measured;
extern const std::string_view experiment_saved_omega;
extern const std::string_view experiment_shared_omega;
extern const std::string_view experiment_smoke;
extern const std::string_view experiment_table1;
extern const std::string_view experiment_width;
}  // namespace embedded

namespace {

using Case = std::vector<SettingText>;

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

std::vector<std::string> list_of(std::string_view text, const std::string& place) {
    text.remove_prefix(1);
    text.remove_suffix(1);
    std::vector<std::string> values;
    while (true) {
        const auto comma = text.find(',');
        values.emplace_back(trimmed(text.substr(0, comma)));
        if (values.back().empty())
            fail(ErrorCode::bad_config, fmt::format("{}: empty value in the list", place));
        if (comma == std::string_view::npos) return values;
        text.remove_prefix(comma + 1);
    }
}

std::uint64_t seeds_in(const std::string& text) {
    return Codec<std::vector<std::uint64_t>>::parse(text, "seeds").size();
}

std::uint64_t seeds_of(const Case& settings, std::uint64_t otherwise) {
    for (const auto& s : settings) {
        if (s.name == "seeds") return seeds_in(s.value);
    }
    return otherwise;
}

std::size_t grid_points(const Experiment& experiment) {
    std::size_t points = 1;
    for (const auto& axis : experiment.grid) points *= axis.values.size();
    return points;
}

// One point of the grid; the last axis varies fastest.
RunPoint combine(const Experiment& experiment, const RunPoint& start, const Case& one, std::size_t point) {
    RunPoint c = start;
    std::vector<std::string> parts;
    for (const auto& setting : one) parts.push_back(fmt::format("{}={}", setting.name, setting.value));
    std::size_t block = grid_points(experiment);
    for (const auto& axis : experiment.grid) {
        block /= axis.values.size();
        if (axis.name == "seeds") continue;
        const auto& value = axis.values[point / block % axis.values.size()];
        apply(axis.name, value, axis.place, c);
        parts.push_back(fmt::format("{}={}", axis.name, value));
    }
    c.label = parts.empty() ? "the settings of base" : fmt::format("{}", fmt::join(parts, ", "));
    try {
        validate(c.config);
    } catch (const Error& e) {
        fail(e.code(), fmt::format("{}: {}: {}", experiment.place, c.label, e.what()));
    }
    return c;
}

// Settings of base and the case, before the grid. Includes seeds from the grid, which are one value.
RunPoint start_of(const Experiment& experiment, const Case& one) {
    RunPoint c{.config = run_kind(experiment.kind).family.defaults()};
    for (const auto& setting : experiment.base) apply(setting, c);
    for (const auto& setting : one) apply(setting, c);
    for (const auto& axis : experiment.grid) {
        if (axis.name == "seeds") apply(axis.name, axis.values.front(), axis.place, c);
    }
    return c;
}

// Reads and writes experiment files.

constexpr std::size_t kMostCases = 10'000;

bool has_duplicates(const std::vector<std::string>& values) {
    return std::set<std::string>(values.begin(), values.end()).size() != values.size();
}

// Settings of `more` replace the same settings of `one`.
Case merged(Case one, const Case& more) {
    for (const auto& setting : more) {
        const auto it = std::ranges::find(one, setting.name, &SettingText::name);
        if (it == one.end()) {
            one.push_back(setting);
        } else {
            *it = setting;
        }
    }
    return one;
}

class ExperimentReader {
public:
    explicit ExperimentReader(YamlTree tree) : tree_(std::move(tree)) {}

    Experiment read() {
        YamlReader root(tree_);
        Experiment e;
        e.place = tree_.where;
        e.name = root.text("name");
        check_name(e.name, root.line("name"));
        e.title = root.find_text("title").value_or("");
        e.description = root.find_text("description").value_or("");
        e.kind = root.find_text("kind").value_or("ridge");
        kind_ = find_run_kind(e.kind);
        if (kind_ == nullptr)
            refuse(root.line("kind"),
                   fmt::format("'{}' is not a known kind; known: {}", e.kind, run_kind_names()));
        if (const auto base = root.find_map("base")) e.base = base_of(base->node());
        if (const auto grid = root.find_map("grid")) e.grid = grid_of(grid->node());
        if (const auto* cases = root.find("cases")) e.cases = cases_of(*cases);
        root.done();
        if (e.grid.empty() && e.cases.empty()) refuse(0, "'grid' or 'cases' is missing: nothing to run");
        check_cases_and_grid(e);
        return e;
    }

private:
    [[noreturn]] void refuse(int line, const std::string& what) const { fail_at(tree_.where, line, what); }
    std::string place(int line) const { return fmt::format("{}: line {}", tree_.where, line); }

    void check_name(const std::string& name, int line) const {
        constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789_-";
        if (name.size() > 100 || name.front() == '-' || name.find_first_not_of(kAllowed) != std::string::npos)
            refuse(line, fmt::format("invalid name '{}'; use lower-case letters, digits, '_' and '-'", name));
    }

    // Reports an invalid value immediately, with its line.
    void check_value(const std::string& name, const std::string& value, int line) const {
        if (is_own_seed(name, value)) return;
        auto scratch = kind_->family.defaults();
        try {
            set_field(fields(scratch), name, value);
        } catch (const Error& e) {
            refuse(line, e.what());
        }
    }

    // One value, or each value of a list. Seeds are always one value.
    std::vector<std::string> values_of(const std::string& name, const YamlNode& node) const {
        std::vector<std::string> values;
        if (node.is_map()) refuse(node.line, fmt::format("'{}': expected a scalar or a list", name));
        if (node.is_scalar()) values.push_back(node.text);
        for (const auto& child : node.children) {
            if (!child.is_scalar()) refuse(child.line, fmt::format("'{}': expected a list of scalars", name));
            values.push_back(child.text);
        }
        if (values.empty()) refuse(node.line, fmt::format("'{}': the list is empty", name));
        if (name == "seeds") values = {fmt::format("{}", fmt::join(values, ","))};
        for (const auto& value : values) check_value(name, value, node.line);
        if (has_duplicates(values)) refuse(node.line, fmt::format("'{}': duplicate value", name));
        return values;
    }

    Case base_of(const YamlNode& node) const {
        Case settings;
        for (std::size_t i = 0; i < node.keys.size(); ++i) {
            const auto& [key, line] = node.keys[i];
            auto values = values_of(key, node.children[i]);
            if (values.size() > 1)
                refuse(line, fmt::format("'{}': expected one value; lists go into 'grid'", key));
            settings.push_back({.name = key, .value = std::move(values.front()), .place = place(line)});
        }
        return settings;
    }

    std::vector<Axis> grid_of(const YamlNode& node) const {
        if (node.keys.empty()) refuse(node.line, "'grid' is empty; leave it out or list values");
        std::vector<Axis> grid;
        for (std::size_t i = 0; i < node.keys.size(); ++i) {
            const auto& [key, line] = node.keys[i];
            if (key != "seeds" && !node.children[i].is_list())
                refuse(line,
                       fmt::format("'{}': expected a list such as [a, b]; one value goes into 'base'", key));
            grid.push_back({.name = key, .values = values_of(key, node.children[i]), .place = place(line)});
        }
        return grid;
    }

    // The cases of one map: all combinations of the values of its lists.
    std::vector<Case> expand_case(const YamlNode& node) const {
        if (!node.is_map()) refuse(node.line, "'cases': expected 'setting: value' pairs");
        std::vector<Case> all = {{}};
        for (std::size_t i = 0; i < node.keys.size(); ++i) {
            const auto& [key, line] = node.keys[i];
            std::vector<Case> values;
            for (auto& value : values_of(key, node.children[i]))
                values.push_back({{.name = key, .value = std::move(value), .place = place(line)}});
            all = multiplied(all, values, line);
        }
        return all;
    }

    std::vector<Case> multiplied(const std::vector<Case>& a, const std::vector<Case>& b, int line) const {
        if (a.size() * b.size() > kMostCases)
            refuse(line, fmt::format("{} cases; at most {} are allowed", a.size() * b.size(), kMostCases));
        std::vector<Case> all;
        for (const auto& one : a) {
            for (const auto& more : b) all.push_back(merged(one, more));
        }
        return all;
    }

    std::vector<Case> case_list(const YamlNode& node) const {
        if (!node.is_list()) refuse(node.line, "'cases': expected a list of cases, each starting with '- '");
        if (node.children.empty()) refuse(node.line, "'cases' is empty; leave it out or list cases");
        std::vector<Case> cases;
        std::uint64_t seeds = 0;
        for (const auto& child : node.children) {
            for (auto& one : expand_case(child)) {
                seeds += seeds_of(one, 1);
                cases.push_back(std::move(one));
            }
            // A short text can stand for a million seeds.
            if (seeds > kMostRuns || cases.size() > kMostCases)
                refuse(child.line, fmt::format("more than {} cases or {} seeds", kMostCases, kMostRuns));
        }
        return cases;
    }

    // A list of cases, or several named lists, which are combined.
    std::vector<Case> cases_of(const YamlNode& node) const {
        if (!node.is_map()) return case_list(node);
        std::vector<Case> all = {{}};
        for (const auto& list : node.children) all = multiplied(all, case_list(list), list.line);
        return all;
    }

    void check_cases_and_grid(const Experiment& e) const {
        for (const auto& one : e.cases) {
            for (const auto& setting : one) {
                if (std::ranges::find(e.grid, setting.name, &Axis::name) == e.grid.end()) continue;
                fail(ErrorCode::bad_config,
                     fmt::format("{}: '{}' is in a case and in 'grid'; use one of them", setting.place,
                                 setting.name));
            }
        }
    }

    YamlTree tree_;
    const RunKind* kind_ = nullptr;
};

std::string yaml_text(const std::string& text) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos &&
                       std::string_view("+-.").find(text.front()) == std::string_view::npos &&
                       text != "null" && text != "Null" && text != "NULL";
    return plain ? text : detail::string_json(text);
}

}  // namespace

void override_setting(Experiment& experiment, const std::string& name, const std::string& text) {
    const auto place = fmt::format("--set {}={}", name, text);
    const bool is_list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
    std::vector<std::string> values = is_list ? list_of(text, place) : std::vector<std::string>{text};
    if (name == "seeds") values = {fmt::format("{}", fmt::join(values, ","))};
    RunPoint scratch{.config = run_kind(experiment.kind).family.defaults()};
    for (const auto& value : values) apply(name, value, place, scratch);
    if (has_duplicates(values)) fail(ErrorCode::bad_config, fmt::format("{}: duplicate value", place));

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
    auto cases = experiment.cases;
    if (cases.empty()) cases.emplace_back();
    (void)count_runs(experiment);
    std::vector<RunPoint> all;
    for (const auto& one : cases) {
        const auto start = start_of(experiment, one);
        for (std::size_t point = 0; point < grid_points(experiment); ++point)
            all.push_back(combine(experiment, start, one, point));
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
        KnownExperiment{"fidelity_blind", embedded::experiment_fidelity_blind},
        KnownExperiment{"ridge_fp32", embedded::experiment_ridge_fp32},
        KnownExperiment{"ridge_measured", embedded::experiment_ridge_measured},
        KnownExperiment{"liu", embedded::experiment_liu},
        KnownExperiment{"mitigation", embedded::experiment_mitigation},
        KnownExperiment{"drift", embedded::experiment_drift},
        KnownExperiment{"ablation", embedded::experiment_ablation},
        KnownExperiment{"replication", embedded::experiment_replication},
        KnownExperiment{"choromanski", embedded::experiment_choromanski},
        KnownExperiment{"attention_error", embedded::experiment_attention_error},
        KnownExperiment{"attention_error_trained", embedded::experiment_attention_error_trained},
        KnownExperiment{"attention_scaling", embedded::experiment_attention_scaling},
        KnownExperiment{"table1", embedded::experiment_table1},
        KnownExperiment{"full_test", embedded::experiment_full_test},
        KnownExperiment{"relu", embedded::experiment_relu},
        KnownExperiment{"resampling", embedded::experiment_resampling},
        KnownExperiment{"saved_omega", embedded::experiment_saved_omega},
        KnownExperiment{"shared_omega", embedded::experiment_shared_omega},
        KnownExperiment{"width", embedded::experiment_width},
        KnownExperiment{"hwa_noise", embedded::experiment_hwa_noise},
        KnownExperiment{"embedding_init", embedded::experiment_embedding_init},
        KnownExperiment{"performer_drift", embedded::experiment_performer_drift},
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
    std::error_code ignored;
    if (!std::filesystem::exists(name_or_path, ignored)) {
        fail(ErrorCode::bad_usage, fmt::format("'{}' is neither a known experiment ({}) nor a file",
                                               name_or_path, join_names(names)));
    }
    return read_experiment(name_or_path);
}

Experiment parse_experiment(std::string_view text, const std::string& where) {
    return ExperimentReader(parse_yaml(text, where)).read();
}

Experiment read_experiment(const std::filesystem::path& path) {
    return ExperimentReader(read_yaml(path)).read();
}

std::string to_yaml(const Experiment& e) {
    std::string text = fmt::format("name: {}\n", e.name);
    if (!e.title.empty()) text += fmt::format("title: {}\n", yaml_text(e.title));
    if (!e.description.empty()) text += fmt::format("description: {}\n", yaml_text(e.description));
    text += fmt::format("kind: {}\n", e.kind);
    if (!e.base.empty()) text += "base:\n";
    for (const auto& s : e.base) text += fmt::format("  {}: {}\n", s.name, yaml_text(s.value));
    if (!e.grid.empty()) text += "grid:\n";
    for (const auto& axis : e.grid) {
        std::vector<std::string> values(axis.values.size());
        std::ranges::transform(axis.values, values.begin(), yaml_text);
        text += fmt::format("  {}: [{}]\n", axis.name, fmt::join(values, ", "));
    }
    if (!e.cases.empty()) text += "cases:\n";
    for (const auto& one : e.cases) {
        std::string values;
        for (const auto& s : one)
            values += fmt::format("{}{}: {}", values.empty() ? "" : ", ", s.name, yaml_text(s.value));
        text += fmt::format("  - {{{}}}\n", values);
    }
    return text;
}

}  // namespace imka

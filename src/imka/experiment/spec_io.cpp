// Reads and writes experiment files.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "imka/base/error.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/experiment/spec.hpp"
#include "imka/io/yaml.hpp"

namespace imka {
namespace {

constexpr std::size_t kMostCases = 10'000;

using Case = std::vector<SettingText>;

bool has_duplicates(const std::vector<std::string>& values) {
    return std::set<std::string>(values.begin(), values.end()).size() != values.size();
}

std::uint64_t seeds_in_case(const Case& settings) {
    for (const auto& s : settings) {
        if (s.name == "seeds") return Codec<std::vector<std::uint64_t>>::parse(s.value, s.name).size();
    }
    return 1;
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

    Experiment read() const {
        YamlReader root(tree_);
        Experiment e;
        e.place = tree_.where;
        e.name = root.text("name");
        check_name(e.name, root.line("name"));
        e.title = root.find_text("title").value_or("");
        e.description = root.find_text("description").value_or("");
        e.kind = root.find_text("kind").value_or("ridge");
        if (find_run_kind(e.kind) == nullptr)
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
        if (name == "split_seed" && value == "seed") return;
        RunConfig scratch;
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
                seeds += seeds_in_case(one);
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
};

std::string yaml_text(const std::string& text) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos &&
                       std::string_view("+-.").find(text.front()) == std::string_view::npos &&
                       text != "null" && text != "Null" && text != "NULL";
    return plain ? text : detail::string_json(text);
}

}  // namespace

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

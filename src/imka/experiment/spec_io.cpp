// Reads and writes experiment files.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/experiment/spec.hpp"

namespace imka {
namespace {

struct Node {
    enum class Kind { scalar, list, map };
    Kind kind = Kind::scalar;
    std::string place;
    std::string text;               // of a scalar
    std::vector<std::string> keys;  // of a map, one a child
    std::vector<Node> children = {};
};

// Takes one document event by event into a tree of bounded depth. Anchors and aliases are refused where they
// stand, so a hostile file costs no more than its length.
class TreeHandler : public YAML::EventHandler {
public:
    explicit TreeHandler(std::string where) : where_(std::move(where)) {}
    std::optional<Node> take() { return std::move(root_); }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (documents_++ > 0) refuse(mark, "a second document; one belongs here");
    }
    void OnDocumentEnd() override {}
    void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
        refuse(mark, fmt::format("the anchor '&{}'; write values out", name));
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        refuse(mark, "an alias; write values out");
    }
    void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
        if (waits_for_value()) refuse(mark, fmt::format("nothing behind '{}'", stack_.back().keys.back()));
        refuse(mark, "an empty value");
    }
    void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  const std::string& value) override {
        if (!stack_.empty() && stack_.back().kind == Node::Kind::map && !waits_for_value()) {
            take_key(mark, value);
            return;
        }
        attach({.kind = Node::Kind::scalar, .place = place(mark), .text = value, .keys = {}});
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {
        open(mark, Node::Kind::list);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {
        open(mark, Node::Kind::map);
    }
    void OnMapEnd() override { close(); }

private:
    static constexpr std::size_t kDeepest = 4;

    std::string place(const YAML::Mark& mark) const {
        return fmt::format("{}: line {}", where_, mark.line + 1);
    }
    [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view what) const {
        fail(ErrorCode::bad_config, fmt::format("{}: {}", place(mark), what));
    }
    bool waits_for_value() const {
        if (stack_.empty()) return false;
        const auto& top = stack_.back();
        return top.kind == Node::Kind::map && top.keys.size() > top.children.size();
    }
    void take_key(const YAML::Mark& mark, const std::string& key) {
        auto& keys = stack_.back().keys;
        // A file of 1 MiB has few enough keys in one mapping for a set to be no bomb.
        if (!seen_.back().insert(key).second) refuse(mark, fmt::format("'{}' stands twice", key));
        keys.push_back(key);
    }
    void open(const YAML::Mark& mark, Node::Kind kind) {
        if (!stack_.empty() && stack_.back().kind == Node::Kind::map && !waits_for_value())
            refuse(mark, "a key must be plain text");
        if (stack_.size() == kDeepest) refuse(mark, "nested too deeply; see docs/formats.md");
        stack_.push_back({.kind = kind, .place = place(mark), .text = {}, .keys = {}});
        seen_.emplace_back();
    }
    void close() {
        Node node = std::move(stack_.back());
        stack_.pop_back();
        seen_.pop_back();
        attach(std::move(node));
    }
    void attach(Node node) {
        if (stack_.empty()) {
            root_ = std::move(node);
        } else {
            stack_.back().children.push_back(std::move(node));
        }
    }

    std::string where_;
    int documents_ = 0;
    std::vector<Node> stack_;
    std::vector<std::set<std::string>> seen_;
    std::optional<Node> root_;
};

[[noreturn]] void refuse(const std::string& place, const std::string& what) {
    fail(ErrorCode::bad_config, fmt::format("{}: {}", place, what));
}

void need(const Node& node, Node::Kind kind, const std::string& what) {
    if (node.kind != kind) refuse(node.place, what);
}

// A list of plain values.
std::vector<std::string> plain_values(const Node& node, const std::string& name) {
    std::vector<std::string> values;
    for (const auto& child : node.children) {
        need(child, Node::Kind::scalar, fmt::format("'{}': the list must hold plain values", name));
        values.push_back(child.text);
    }
    if (values.empty()) refuse(node.place, fmt::format("'{}': the list is empty", name));
    return values;
}

// Seeds are one value, however they are written.
std::string seeds_text(const Node& node) {
    if (node.kind == Node::Kind::scalar) return node.text;
    need(node, Node::Kind::list, "'seeds': a list such as 0..9 or [1, 4, 7] belongs here");
    return fmt::format("{}", fmt::join(plain_values(node, "seeds"), ","));
}

// Says at once what is wrong with a value, where it stands.
void check_value(const std::string& name, const std::string& value, const std::string& place) {
    if (name == "split_seed" && value == "seed") return;
    RunConfig scratch;
    try {
        set_field(fields(scratch), name, value);
    } catch (const Error& e) {
        fail(e.code(), fmt::format("{}: {}", place, e.what()));
    }
}

std::vector<SettingText> settings_of(const Node& node, const std::string& name) {
    need(node, Node::Kind::map, fmt::format("'{}': lines 'setting: value' belong here", name));
    std::vector<SettingText> settings;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
        const auto& key = node.keys[i];
        const auto& child = node.children[i];
        if (key != "seeds") {
            need(child, Node::Kind::scalar,
                 fmt::format("'{}': one plain value belongs here; lists belong into 'grid'", key));
        }
        SettingText s{
            .name = key, .value = key == "seeds" ? seeds_text(child) : child.text, .place = child.place};
        check_value(s.name, s.value, s.place);
        settings.push_back(std::move(s));
    }
    return settings;
}

std::uint64_t seeds_in_case(const std::vector<SettingText>& settings) {
    for (const auto& s : settings) {
        if (s.name == "seeds") return Codec<std::vector<std::uint64_t>>::parse(s.value, s.name).size();
    }
    return 1;
}

std::vector<Axis> grid_of(const Node& node) {
    need(node, Node::Kind::map, "'grid': lines 'setting: [value, value]' belong here");
    if (node.keys.empty()) refuse(node.place, "'grid' is empty; leave it out or list values");
    std::vector<Axis> grid;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
        const auto& key = node.keys[i];
        const auto& child = node.children[i];
        Axis axis{.name = key, .values = {}, .place = child.place};
        if (key == "seeds") {
            axis.values = {seeds_text(child)};
        } else {
            need(child, Node::Kind::list,
                 fmt::format("'{}': a list such as [a, b] belongs here; one value belongs into 'base'", key));
            axis.values = plain_values(child, key);
        }
        for (const auto& value : axis.values) check_value(key, value, axis.place);
        if (std::set<std::string>(axis.values.begin(), axis.values.end()).size() != axis.values.size())
            refuse(axis.place, fmt::format("'{}': a value stands twice", key));
        grid.push_back(std::move(axis));
    }
    return grid;
}

void check_not_twice(const Experiment& e) {
    for (const auto& one : e.cases) {
        for (const auto& setting : one) {
            const auto in_grid =
                std::ranges::find_if(e.grid, [&](const Axis& a) { return a.name == setting.name; });
            if (in_grid != e.grid.end()) {
                refuse(setting.place,
                       fmt::format("'{}' stands in a case and in 'grid'; it belongs into one of them",
                                   setting.name));
            }
        }
    }
}

std::string text_of(const Node& node, const std::string& key) {
    need(node, Node::Kind::scalar, fmt::format("'{}' must be plain text", key));
    if (node.text.empty()) refuse(node.place, fmt::format("'{}' is empty", key));
    return node.text;
}

void check_name(const std::string& name, const std::string& place) {
    constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    if (name.size() > 100 || name.front() == '-' || name.find_first_not_of(kAllowed) != std::string::npos) {
        refuse(place, fmt::format("'{}' is no name; use lower-case letters, digits, '_' and '-'", name));
    }
}

Experiment experiment_of(const Node& root, const std::string& where) {
    std::uint64_t seeds = 0;
    need(root, Node::Kind::map, "'name:', 'base:', 'grid:' and the like belong here");
    Experiment e{
        .name = {}, .title = {}, .description = {}, .place = where, .base = {}, .grid = {}, .cases = {}};
    for (std::size_t i = 0; i < root.keys.size(); ++i) {
        const auto& key = root.keys[i];
        const auto& node = root.children[i];
        if (key == "name") {
            e.name = text_of(node, key);
            check_name(e.name, node.place);
        } else if (key == "title") {
            e.title = text_of(node, key);
        } else if (key == "description") {
            e.description = text_of(node, key);
        } else if (key == "kind") {
            e.kind = text_of(node, key);
            if (find_run_kind(e.kind) == nullptr)
                refuse(node.place,
                       fmt::format("'{}' is not a known kind; known: {}", e.kind, run_kind_names()));
        } else if (key == "base") {
            e.base = settings_of(node, key);
        } else if (key == "grid") {
            e.grid = grid_of(node);
        } else if (key == "cases") {
            need(node, Node::Kind::list, "'cases': a list of settings belongs here, each begun by '- '");
            if (node.children.empty()) refuse(node.place, "'cases' is empty; leave it out or list cases");
            for (const auto& child : node.children) {
                e.cases.push_back(settings_of(child, key));
                seeds += seeds_in_case(e.cases.back());
                // Each may be a short text for a million of them.
                if (seeds > kMostRuns)
                    refuse(child.place, fmt::format("the cases have more than {} seeds", kMostRuns));
            }
        } else {
            refuse(node.place, fmt::format("'{}' is not a known key; known: name, title, description, kind, "
                                           "base, grid, cases",
                                           key));
        }
    }
    if (e.name.empty()) refuse(where, "'name' is missing");
    if (e.grid.empty() && e.cases.empty()) refuse(where, "'grid' or 'cases' is missing: nothing to run");
    check_not_twice(e);
    return e;
}

std::string yaml_text(const std::string& text) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos &&
                       std::string_view("+-.").find(text.front()) == std::string_view::npos &&
                       text != "null" && text != "Null" && text != "NULL";
    return plain ? text : detail::string_json(text);
}

}  // namespace

Experiment parse_experiment(std::string_view text, const std::string& where) {
    TreeHandler handler(where);
    try {
        std::istringstream in{std::string(text)};
        YAML::Parser parser(in);
        while (parser.HandleNextDocument(handler)) {
        }
    } catch (const YAML::Exception& e) {
        fail(ErrorCode::bad_config, fmt::format("{}: not valid YAML: {}", where, e.what()));
    }
    const auto root = handler.take();
    if (!root) refuse(where, "the file is empty; 'name:' and 'grid:' or 'cases:' belong into it");
    return experiment_of(*root, where);
}

Experiment read_experiment(const std::filesystem::path& path) {
    return parse_experiment(read_file(path, std::size_t{1} << 20U), path.string());
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

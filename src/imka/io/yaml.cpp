#include "imka/io/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "imka/base/config.hpp"
#include "imka/base/file.hpp"

namespace imka {
namespace {

constexpr std::size_t kMaxDepth = 8;

// Builds the tree from parser events and rejects unsupported YAML immediately.
class TreeBuilder : public YAML::EventHandler {
public:
    explicit TreeBuilder(std::string_view where) : where_(where) {}
    YamlNode take() {
        if (!missing_.text.empty()) fail_at(where_, missing_.line, missing_.text);
        return std::move(root_);
    }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (documents_++ > 0) refuse(mark, "a second document; expected one");
    }
    void OnDocumentEnd() override {}
    void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
        refuse(mark, fmt::format("anchor '&{}'; anchors are not supported, repeat the value", name));
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        refuse(mark, "an alias; aliases are not supported, repeat the value");
    }
    void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
        if (expects_key()) refuse(mark, "empty key");
        if (missing_.text.empty() && expects_value()) {
            const auto& [key, line] = stack_.back().keys.back();
            missing_ = {fmt::format("'{}' has no value; expected a scalar or a list", key), line};
        } else if (missing_.text.empty()) {
            missing_ = {"empty value", mark.line + 1};
        }
        attach({.kind = YamlNode::Kind::scalar, .line = mark.line + 1});
    }
    void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  const std::string& value) override {
        if (expects_key()) {
            take_key(mark, value);
        } else {
            attach({.kind = YamlNode::Kind::scalar, .line = mark.line + 1, .text = value});
        }
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {
        open(mark, YamlNode::Kind::list);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {
        open(mark, YamlNode::Kind::map);
    }
    void OnMapEnd() override { close(); }

private:
    [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view what) const {
        fail_at(where_, mark.line + 1, what);
    }
    bool in_map() const { return !stack_.empty() && stack_.back().is_map(); }
    bool expects_value() const {
        return in_map() && stack_.back().keys.size() > stack_.back().children.size();
    }
    bool expects_key() const { return in_map() && !expects_value(); }

    void take_key(const YAML::Mark& mark, const std::string& key) {
        if (!seen_.back().insert(key).second) refuse(mark, fmt::format("duplicate key '{}'", key));
        stack_.back().keys.push_back({.text = key, .line = mark.line + 1});
    }
    void open(const YAML::Mark& mark, YamlNode::Kind kind) {
        if (expects_key()) refuse(mark, "a list or map as a key; a key must be a scalar");
        if (stack_.size() == kMaxDepth) refuse(mark, fmt::format("more than {} levels deep", kMaxDepth));
        stack_.push_back({.kind = kind, .line = mark.line + 1});
        seen_.emplace_back();
    }
    void close() {
        auto node = std::move(stack_.back());
        stack_.pop_back();
        seen_.pop_back();
        attach(std::move(node));
    }
    void attach(YamlNode node) {
        if (stack_.empty()) {
            root_ = std::move(node);
        } else {
            stack_.back().children.push_back(std::move(node));
        }
    }

    std::string_view where_;
    int documents_ = 0;
    std::vector<YamlNode> stack_;              // open lists and maps
    std::vector<std::set<std::string>> seen_;  // keys of each
    YamlNode root_{.kind = YamlNode::Kind::map};
    YamlKey missing_;  // first missing value; reported last, since a missing bracket may be the cause
};

}  // namespace

void fail_at(std::string_view where, int line, std::string_view what) {
    fail(ErrorCode::bad_config,
         line > 0 ? fmt::format("{}: line {}: {}", where, line, what) : fmt::format("{}: {}", where, what));
}

YamlTree parse_yaml(std::string_view text, std::string where) {
    if (text.size() > kMaxYamlBytes)
        fail_at(where, 0, fmt::format("{} bytes; at most {} are allowed", text.size(), kMaxYamlBytes));
    TreeBuilder builder(where);
    try {
        std::istringstream in{std::string(text)};
        YAML::Parser parser(in);
        while (parser.HandleNextDocument(builder)) {
        }
    } catch (const YAML::Exception& e) {
        fail_at(where, e.mark.is_null() ? 0 : e.mark.line + 1, fmt::format("not valid YAML: {}", e.msg));
    }
    auto root = builder.take();
    return {.where = std::move(where), .root = std::move(root)};
}

YamlTree read_yaml(const std::filesystem::path& path) {
    return parse_yaml(read_file(path, kMaxYamlBytes), path.string());
}

YamlReader::YamlReader(const YamlTree& tree) : YamlReader(tree.root, tree.where, "") {}

YamlReader::YamlReader(const YamlNode& map, std::string_view where, std::string path)
    : node_(&map), where_(where), path_(std::move(path)) {
    if (!map.is_map()) fail_here("expected 'key: value' pairs");
}

std::string YamlReader::path(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

int YamlReader::line(std::string_view key) const {
    const auto it = std::ranges::find(node_->keys, key, &YamlKey::text);
    return it == node_->keys.end() ? node_->line : it->line;
}

const YamlNode* YamlReader::find(std::string_view key) {
    asked_.emplace_back(key);
    const auto it = std::ranges::find(node_->keys, key, &YamlKey::text);
    if (it == node_->keys.end()) return nullptr;
    return &node_->children[static_cast<std::size_t>(it - node_->keys.begin())];
}

const YamlNode& YamlReader::take(std::string_view key) {
    const auto* node = find(key);
    if (node == nullptr) fail_here(fmt::format("'{}' is missing", key));
    return *node;
}

std::optional<YamlReader> YamlReader::find_map(std::string_view key) {
    const auto* node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_map()) fail_key(key, "expected 'key: value' pairs");
    return YamlReader(*node, where_, path(key));
}

YamlReader YamlReader::map(std::string_view key) {
    auto found = find_map(key);
    if (!found) fail_here(fmt::format("'{}' is missing", key));
    return std::move(*found);
}

std::vector<YamlReader> YamlReader::maps(std::string_view key) {
    const auto& list = take(key);
    if (!list.is_list() || list.children.empty()) fail_key(key, "expected a list of maps");
    std::vector<YamlReader> out;
    for (const auto& child : list.children)
        out.emplace_back(child, where_, fmt::format("{}[{}]", path(key), out.size() + 1));
    return out;
}

std::optional<std::string> YamlReader::find_text(std::string_view key) {
    const auto* node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_scalar()) fail_key(key, "expected a scalar");
    if (node->text.empty()) fail_key(key, "empty text");
    return node->text;
}

std::string YamlReader::text(std::string_view key) {
    auto value = find_text(key);
    if (!value) fail_here(fmt::format("'{}' is missing", key));
    return std::move(*value);
}

std::vector<std::string> YamlReader::texts(std::string_view key) {
    const auto& list = take(key);
    const auto is_scalar = [](const YamlNode& n) { return n.is_scalar(); };
    if (!list.is_list() || !std::ranges::all_of(list.children, is_scalar))
        fail_key(key, "expected a list of scalars");
    std::vector<std::string> out;
    for (const auto& child : list.children) out.push_back(child.text);
    return out;
}

std::optional<double> YamlReader::find_number(std::string_view key) {
    const auto value = find_text(key);
    if (!value) return std::nullopt;
    return at(key, [&] { return detail::parse_number(*value, path(key)); });
}

double YamlReader::number(std::string_view key) {
    const auto value = find_number(key);
    if (!value) fail_here(fmt::format("'{}' is missing", key));
    return *value;
}

std::vector<double> YamlReader::numbers(std::string_view key) {
    std::vector<double> out;
    for (const auto& text : texts(key))
        out.push_back(at(key, [&] { return detail::parse_number(text, path(key)); }));
    return out;
}

std::uint64_t YamlReader::whole_number(std::string_view key, std::uint64_t most) {
    const auto value = at(key, [&, t = text(key)] { return Codec<std::uint64_t>::parse(t, path(key)); });
    if (value > most) fail_key(key, fmt::format("{} is out of range; it must be <= {}", value, most));
    return value;
}

void YamlReader::done() const {
    for (const auto& key : node_->keys) {
        if (std::ranges::find(asked_, key.text) != asked_.end()) continue;
        const std::vector<std::string_view> known(asked_.begin(), asked_.end());
        fail_at(where_, key.line,
                fmt::format("'{}' is not a known key; {}", path(key.text), nearest_names(key.text, known)));
    }
}

void YamlReader::fail_here(std::string_view what) const {
    fail_at(where_, node_->line, path_.empty() ? std::string(what) : fmt::format("{}: {}", path_, what));
}

void YamlReader::fail_key(std::string_view key, std::string_view what) const {
    fail_at(where_, line(key), fmt::format("{}: {}", path(key), what));
}

}  // namespace imka

// Strict YAML: a tree of scalars, lists and maps with line numbers, and a reader for the keys of a map.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"

namespace imka {

struct YamlKey {
    std::string text;
    int line = 0;
};

struct YamlNode {
    enum class Kind { scalar, list, map };
    Kind kind = Kind::scalar;
    int line = 0;                         // 1-based; 0: the map of an empty file
    std::string text = {};                // of a scalar
    std::vector<YamlKey> keys = {};       // of a map, one per child
    std::vector<YamlNode> children = {};  // of a list or a map

    bool is_scalar() const { return kind == Kind::scalar; }
    bool is_list() const { return kind == Kind::list; }
    bool is_map() const { return kind == Kind::map; }
};

struct YamlTree {
    std::string where;  // file name for messages
    YamlNode root;
};

inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20U;

// One document; an empty file is an empty map. Duplicate keys, keys without a value, anchors, aliases, a
// second document, more than 8 levels and more than 1 MiB are Error{bad_config} with file and line. Time is
// linear in the length of any text.
YamlTree parse_yaml(std::string_view text, std::string where);
YamlTree read_yaml(const std::filesystem::path& path);

// Error{bad_config}: "chip.yaml: line 3: what"; without the line if it is 0.
[[noreturn]] void fail_at(std::string_view where, int line, std::string_view what);

// Reads a map. Messages contain file, line and the path of the key, such as "device.g_max". Refers to the
// tree, which must outlive it.
class YamlReader {
public:
    explicit YamlReader(const YamlTree& tree);
    // A map inside the tree; `path` is its key path, such as "device".
    YamlReader(const YamlNode& map, std::string_view where, std::string path);

    const YamlNode& node() const { return *node_; }
    std::string path(std::string_view key) const;
    int line(std::string_view key) const;  // of the map if the key is missing

    // nullptr or nullopt if the key is missing; for the other readers that is an error.
    const YamlNode* find(std::string_view key);
    const YamlNode& take(std::string_view key);
    std::optional<YamlReader> find_map(std::string_view key);
    YamlReader map(std::string_view key);
    std::vector<YamlReader> maps(std::string_view key);  // a list of maps; not empty
    std::optional<std::string> find_text(std::string_view key);
    std::string text(std::string_view key);
    std::vector<std::string> texts(std::string_view key);  // a list of scalars
    std::optional<double> find_number(std::string_view key);
    double number(std::string_view key);
    std::vector<double> numbers(std::string_view key);
    std::uint64_t whole_number(std::string_view key, std::uint64_t most);
    template <NamedEnum E>
    E name(std::string_view key) {
        const auto value = text(key);
        try {
            return parse_enum<E>(value);
        } catch (const Error& e) {
            fail_key(key, e.what());
        }
    }

    // Error{bad_config} with the nearest known keys if a key was never read.
    void done() const;

    [[noreturn]] void fail_here(std::string_view what) const;
    [[noreturn]] void fail_key(std::string_view key, std::string_view what) const;
    // Calls action and adds file and line of the key to the message of an Error.
    template <class Action>
    auto at(std::string_view key, Action action) const {
        try {
            return action();
        } catch (const Error& e) {
            fail_at(where_, line(key), e.what());
        }
    }

private:
    const YamlNode* node_;
    std::string_view where_;
    std::string path_;
    std::vector<std::string> asked_;
};

}  // namespace imka

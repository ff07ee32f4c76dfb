#include "imka/io/settings.hpp"

#include <fmt/format.h>

#include "imka/base/names.hpp"
#include "imka/io/yaml.hpp"

namespace imka {
namespace {

void load_tree(const YamlTree& tree, const Fields& fields) {
    YamlReader reader(tree);
    for (std::size_t i = 0; i < tree.root.keys.size(); ++i) {
        const auto& key = tree.root.keys[i].text;
        const auto& node = tree.root.children[i];
        if (node.is_map()) reader.fail_key(key, "expected a scalar or a list, not a map");
        const auto text = node.is_scalar() ? node.text : fmt::format("{}", fmt::join(reader.texts(key), ","));
        reader.at(key, [&] { set_field(fields, key, text); });
    }
}

}  // namespace

void load_yaml(const std::filesystem::path& path, const Fields& fields) {
    load_tree(read_yaml(path), fields);
}

void load_yaml_text(std::string_view text, std::string_view where, const Fields& fields) {
    load_tree(parse_yaml(text, std::string(where)), fields);
}

}  // namespace imka

// YAML files that hold one list of maps.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "imka/io/yaml.hpp"

namespace imka {

// Reads each entry of the list `key`, which must be the only key of the text, with `read`. Errors are those
// of YamlReader, with `where` as the file name.
template <class Read>
auto parse_yaml_list(std::string_view text, std::string where, std::string_view key, const Read& read) {
    const auto tree = parse_yaml(text, std::move(where));
    YamlReader reader(tree);
    std::vector<decltype(read(reader))> list;
    for (auto& entry : reader.maps(key)) {
        list.push_back(read(entry));
        entry.done();
    }
    reader.done();
    return list;
}

}  // namespace imka

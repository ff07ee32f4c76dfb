#include "imka/data/registry_io.hpp"

#include <fmt/format.h>

#include "imka/base/config.hpp"
#include "imka/io/yaml.hpp"

namespace imka {
namespace {

std::string sha256_of(YamlReader& map, const std::string& key) {
    auto text = map.text(key);
    const auto digits = text.find_first_not_of("0123456789abcdef");
    if (text.size() != 64 || digits != std::string::npos) map.fail_key(key, "expected 64 hexadecimal digits");
    return text;
}

// A name becomes part of a path and must not lead outside the data directory.
std::string file_name(YamlReader& map, const std::string& text) {
    if (text.empty() || text.front() == '.' || text.find('/') != std::string::npos)
        map.fail_here(fmt::format("'{}' is not a plain file name", text));
    return text;
}

std::uint32_t number32(YamlReader& map, std::string_view key) {
    return static_cast<std::uint32_t>(map.whole_number(key, UINT32_MAX));
}

ReadOptions parse_read(YamlReader map) {
    ReadOptions read;
    read.format = map.name<Format>("format");
    if (const auto column = map.find_text("label_column")) read.label_column = *column;
    if (map.find("features") != nullptr) read.features = number32(map, "features");
    if (map.find("header") != nullptr) read.header = map.name<Header>("header");
    if (const auto delimiter = map.find_text("delimiter")) {
        if (delimiter->size() != 1) map.fail_key("delimiter", "expected one character");
        read.delimiter = delimiter->front();
    }
    map.done();
    return read;
}

std::vector<ClassCount> parse_classes(YamlReader map) {
    std::vector<ClassCount> classes;
    for (const auto& label : map.node().keys)
        classes.push_back({label.text, map.whole_number(label.text, UINT64_MAX)});
    return classes;
}

SourceFile parse_file(YamlReader map) {
    SourceFile file;
    for (const auto& name : map.texts("names")) file.names.push_back(file_name(map, name));
    if (file.names.empty()) map.fail_key("names", "the list is empty");
    file.url = map.text("url");
    file.read = parse_read(map.map("read"));
    file.bytes = map.whole_number("bytes", UINT64_MAX);
    file.raw_sha256 = sha256_of(map, "raw_sha256");
    file.table_sha256 = sha256_of(map, "table_sha256");
    file.rows = map.whole_number("rows", UINT64_MAX);
    file.classes = parse_classes(map.map("classes"));
    map.done();
    return file;
}

ProtocolSizes parse_sizes(YamlReader map) {
    ProtocolSizes sizes;
    sizes.features = number32(map, "features");
    sizes.train = map.whole_number("train", UINT64_MAX);
    sizes.test = map.whole_number("test", UINT64_MAX);
    map.done();
    return sizes;
}

RegisteredSet parse_set(const std::string& name, YamlReader map) {
    RegisteredSet set;
    set.name = name;
    set.title = map.text("title");
    set.description = map.text("description");
    set.folder = file_name(map, map.text("folder"));
    const auto split = map.text("split");
    if (split != "fixed" && split != "random") map.fail_key("split", "expected fixed or random");
    set.random_split = split == "random";
    set.page = map.text("page");
    set.licence = map.text("licence");
    set.citation = map.text("citation");
    auto protocols = map.map("protocols");
    set.default_sizes = parse_sizes(protocols.map("default"));
    set.measured_sizes = parse_sizes(protocols.map("measured"));
    protocols.done();
    for (auto& file : map.maps("files")) set.files.push_back(parse_file(std::move(file)));
    map.done();
    return set;
}

}  // namespace

std::vector<RegisteredSet> parse_manifest(std::string_view text, std::string_view where) {
    const auto tree = parse_yaml(text, std::string(where));
    YamlReader root(tree);
    auto sets = root.map("sets");
    root.done();
    std::vector<RegisteredSet> out;
    for (const auto& key : sets.node().keys) out.push_back(parse_set(key.text, sets.map(key.text)));
    return out;
}

}  // namespace imka

#include "imka/data/registry_io.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"

namespace imka {
namespace {

// A mapping whose keys are taken one by one; what is left at the end was not known.
class Mapping {
public:
    Mapping(const YAML::Node& node, std::string where) : where_(std::move(where)) {
        if (!node.IsMap()) fail_here("'key: value' pairs belong here");
        for (const auto& item : node) {
            if (!item.first.IsScalar()) fail_here("a key must be plain text");
            const auto& key = item.first.Scalar();
            if (!values_.emplace(key, item.second).second) fail_here(fmt::format("'{}' stands twice", key));
            order_.push_back(key);
        }
    }

    [[noreturn]] void fail_here(const std::string& what) const {
        fail(ErrorCode::bad_config, fmt::format("{}: {}", where_, what));
    }
    std::string place(std::string_view key) const { return fmt::format("{}: {}", where_, key); }
    const std::vector<std::string>& keys() const { return order_; }

    std::optional<YAML::Node> find(const std::string& key) {
        const auto it = values_.find(key);
        if (it == values_.end()) return std::nullopt;
        const YAML::Node node = it->second;
        values_.erase(it);
        return node;
    }
    YAML::Node take(const std::string& key) {
        const auto node = find(key);
        if (!node) fail_here(fmt::format("'{}' is missing", key));
        return *node;
    }
    std::optional<std::string> find_text(const std::string& key) {
        const auto node = find(key);
        if (!node) return std::nullopt;
        if (!node->IsScalar() || node->Scalar().empty())
            fail_here(fmt::format("'{}' must be plain text", key));
        return node->Scalar();
    }
    std::string text(const std::string& key) {
        auto value = find_text(key);
        if (!value) fail_here(fmt::format("'{}' is missing", key));
        return *value;
    }
    std::uint64_t number(const std::string& key) { return detail::parse_unsigned(text(key), place(key)); }
    std::uint32_t number32(const std::string& key) {
        const auto value = number(key);
        if (value > UINT32_MAX) fail_here(fmt::format("'{}' must be below 2^32", key));
        return static_cast<std::uint32_t>(value);
    }
    void done() const {
        if (!values_.empty()) fail_here(fmt::format("'{}' is not a known key", values_.begin()->first));
    }

private:
    std::string where_;
    std::map<std::string, YAML::Node> values_;
    std::vector<std::string> order_;
};

std::string sha256_of(Mapping& map, const std::string& key) {
    auto text = map.text(key);
    const auto digits = text.find_first_not_of("0123456789abcdef");
    if (text.size() != 64 || digits != std::string::npos)
        map.fail_here(fmt::format("'{}' must be 64 hexadecimal digits", key));
    return text;
}

// A name becomes part of a path below the data directory and must not lead out of it.
std::string file_name(Mapping& map, const std::string& text) {
    if (text.empty() || text.front() == '.' || text.find('/') != std::string::npos)
        map.fail_here(fmt::format("'{}' is not a plain file name", text));
    return text;
}

ReadOptions parse_read(Mapping map) {
    ReadOptions read;
    read.format = parse_enum<Format>(map.text("format"));
    if (const auto column = map.find_text("label_column")) read.label_column = *column;
    if (map.keys().size() > 1 && *read.format == Format::libsvm) read.features = map.number32("features");
    if (const auto header = map.find_text("header"))
        read.header = detail::parse_bool(*header, map.place("header"));
    if (const auto delimiter = map.find_text("delimiter")) {
        if (delimiter->size() != 1) map.fail_here("'delimiter' must be one character");
        read.delimiter = delimiter->front();
    }
    map.done();
    return read;
}

std::vector<ClassCount> parse_classes(Mapping map) {
    std::vector<ClassCount> classes;
    for (const auto& label : map.keys()) classes.push_back({label, map.number(label)});
    return classes;
}

SourceFile parse_file(Mapping map) {
    SourceFile file;
    const auto names = map.take("names");
    if (!names.IsSequence() || names.size() == 0) map.fail_here("'names' must be a list of file names");
    for (const auto& name : names) file.names.push_back(file_name(map, name.as<std::string>("")));
    file.url = map.text("url");
    file.read = parse_read(Mapping(map.take("read"), map.place("read")));
    file.bytes = map.number("bytes");
    file.raw_sha256 = sha256_of(map, "raw_sha256");
    file.table_sha256 = sha256_of(map, "table_sha256");
    file.rows = map.number("rows");
    file.classes = parse_classes(Mapping(map.take("classes"), map.place("classes")));
    map.done();
    return file;
}

ProtocolSizes parse_sizes(Mapping map) {
    ProtocolSizes sizes;
    sizes.features = map.number32("features");
    sizes.train = map.number("train");
    sizes.test = map.number("test");
    map.done();
    return sizes;
}

RegisteredSet parse_set(const std::string& name, Mapping map) {
    RegisteredSet set;
    set.name = name;
    set.title = map.text("title");
    set.description = map.text("description");
    set.folder = file_name(map, map.text("folder"));
    const auto split = map.text("split");
    if (split != "fixed" && split != "random") map.fail_here("'split' must be fixed or random");
    set.random_split = split == "random";
    set.page = map.text("page");
    set.licence = map.text("licence");
    set.citation = map.text("citation");
    Mapping protocols(map.take("protocols"), map.place("protocols"));
    set.default_sizes = parse_sizes(Mapping(protocols.take("default"), protocols.place("default")));
    set.measured_sizes = parse_sizes(Mapping(protocols.take("measured"), protocols.place("measured")));
    protocols.done();
    const auto files = map.take("files");
    if (!files.IsSequence() || files.size() == 0) map.fail_here("'files' must be a list");
    for (std::size_t i = 0; i < files.size(); ++i)
        set.files.push_back(parse_file(Mapping(files[i], map.place(fmt::format("file {}", i + 1)))));
    map.done();
    return set;
}

}  // namespace

std::vector<RegisteredSet> parse_manifest(std::string_view text, std::string_view where) {
    YAML::Node node;
    try {
        node = YAML::Load(std::string(text));
    } catch (const YAML::Exception& e) {
        fail(ErrorCode::bad_config, fmt::format("{}: not valid YAML: {}", where, e.what()));
    }
    Mapping root(node, std::string(where));
    Mapping sets(root.take("sets"), root.place("sets"));
    root.done();
    std::vector<RegisteredSet> out;
    for (const auto& name : sets.keys())
        out.push_back(parse_set(name, Mapping(sets.take(name), sets.place(name))));
    return out;
}

}  // namespace imka

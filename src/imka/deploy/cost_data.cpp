#include "imka/deploy/cost_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/io/yaml.hpp"

namespace imka {
namespace embedded {
extern const std::string_view costs;
}
namespace {

using Sources = std::map<std::string, std::string, std::less<>>;

std::string source_of(YamlReader& reader, const Sources& sources) {
    const auto name = reader.text("source");
    const auto found = sources.find(name);
    if (found == sources.end()) reader.fail_key("source", fmt::format("unknown source {}", in_quotes(name)));
    return found->second;
}

Sources read_sources(YamlReader reader) {
    Sources sources;
    for (const auto& key : reader.node().keys) sources[key.text] = reader.text(key.text);
    return sources;
}

CostParameter read_parameter(YamlReader& reader, const Sources& sources) {
    CostParameter p{.name = reader.text("name"),
                    .value = reader.number("value"),
                    .low = reader.number("low"),
                    .high = reader.number("high"),
                    .unit = reader.text("unit"),
                    .source = source_of(reader, sources)};
    if (!(p.low >= 0.0 && p.low <= p.value && p.value <= p.high))
        reader.fail_key("value", "expected 0 <= low <= value <= high");
    reader.done();
    return p;
}

Machine read_machine(YamlReader& reader, const Sources& sources) {
    Machine m{.name = reader.text("name"),
              .tops = reader.number("tops"),
              .watts = reader.number("watts"),
              .static_watts = reader.number("static_watts"),
              .area_mm2 = reader.number("area_mm2"),
              .bytes_per_second = reader.number("bytes_per_second"),
              .bytes_per_value = reader.number("bytes_per_value"),
              .source = source_of(reader, sources)};
    reader.done();
    return m;
}

PublishedValue read_published(YamlReader& reader) {
    PublishedValue v{.name = reader.text("name"),
                     .where = reader.text("where"),
                     .text = reader.find_text("text").value_or(""),
                     .unit = reader.find_text("unit").value_or(""),
                     .how = reader.text("how"),
                     .note = reader.find_text("note").value_or("")};
    reader.done();
    return v;
}

NeurramPoint read_point(YamlReader& reader) {
    const auto bits = [&](std::string_view key) { return static_cast<int>(reader.whole_number(key, 16)); };
    NeurramPoint p{.output_bits = bits("output_bits"),
                   .input_bits = bits("input_bits"),
                   .phases = bits("phases"),
                   .tops = reader.number("tops"),
                   .tops_per_watt = reader.number("tops_per_watt")};
    reader.done();
    return p;
}

std::vector<CostParameter> read_parameters(YamlReader& reader, std::string_view key, const Sources& sources) {
    std::vector<CostParameter> list;
    for (auto& entry : reader.maps(key)) list.push_back(read_parameter(entry, sources));
    return list;
}

NeurramData read_neurram(YamlReader reader, const Sources& sources) {
    NeurramData data{
        .cores = reader.whole_number("cores", 65536),
        .rows = reader.whole_number("rows", 65536),
        .cols = reader.whole_number("cols", 65536),
        .most_bits_of_one_phase = static_cast<int>(reader.whole_number("most_bits_of_one_phase", 16)),
        .constants = read_parameters(reader, "constants", sources),
        .points = {}};
    for (auto& entry : reader.maps("points")) data.points.push_back(read_point(entry));
    reader.done();
    return data;
}

template <class Item>
const Item& named(const std::vector<Item>& list, std::string_view name, std::string_view what) {
    std::vector<std::string_view> names;
    names.reserve(list.size());
    for (const auto& item : list) names.push_back(item.name);
    return list[find_name(name, names, what)];
}

}  // namespace

CostData parse_cost_data(std::string_view text, std::string_view where) {
    const auto tree = parse_yaml(text, std::string(where));
    YamlReader reader(tree);
    CostData data;
    const auto sources = read_sources(reader.map("sources"));
    data.parameters = read_parameters(reader, "parameters", sources);
    data.technology = read_parameters(reader, "technology", sources);
    for (auto& entry : reader.maps("machines")) data.machines.push_back(read_machine(entry, sources));
    for (auto& entry : reader.maps("published")) data.published.push_back(read_published(entry));
    data.neurram = read_neurram(reader.map("neurram"), sources);
    reader.done();
    return data;
}

CostData cost_data() {
    return parse_cost_data(embedded::costs, "costs.yaml");
}

const CostParameter& parameter(const std::vector<CostParameter>& list, std::string_view name) {
    return named(list, name, "cost parameter");
}

std::optional<CostParameter> chip_parameter(const CostData& data, std::string_view chip,
                                            std::string_view name) {
    if (chip != "neurram") return parameter(data.parameters, name);
    const auto found = std::ranges::find(data.neurram.constants, name, &CostParameter::name);
    if (found == data.neurram.constants.end()) return std::nullopt;
    return *found;
}

const Machine& machine(const CostData& data, std::string_view name) {
    return named(data.machines, name, "machine");
}

}  // namespace imka

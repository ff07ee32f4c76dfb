#include "imka/chip/spec/chip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/io/yaml.hpp"

namespace imka {
namespace embedded {
extern const std::string_view chip_ideal;
extern const std::string_view chip_hermes;
extern const std::string_view chip_hermes_published;
extern const std::string_view chip_hermes_od;
extern const std::string_view chip_hermes_afm;
extern const std::string_view chip_pcm_like;
extern const std::string_view chip_rram_wan;
extern const std::string_view chip_neurram;
}  // namespace embedded

namespace {

constexpr std::array<std::string_view, 8> kNames = {"ideal",      "hermes",   "hermes-published", "hermes-od",
                                                    "hermes-afm", "pcm-like", "rram-wan",         "neurram"};
// In the order of kNames.
constexpr const std::string_view* kTexts[] = {
    &embedded::chip_ideal,     &embedded::chip_hermes,     &embedded::chip_hermes_published,
    &embedded::chip_hermes_od, &embedded::chip_hermes_afm, &embedded::chip_pcm_like,
    &embedded::chip_rram_wan,  &embedded::chip_neurram};

constexpr std::size_t kMaxChain = 8;
constexpr std::string_view kSections[] = {"chip", "device", "core", "pulses"};

// A partly read chip.
struct Draft {
    ChipSpec chip;
    std::map<std::string, std::string> sources;  // by name: from this file and the files it extends
    std::map<std::string, std::string> origin;   // source of each constant that a file gives
    std::set<std::string> given;                 // constants that this file gives
};

// Files and presets of the chain up to this one, and the folder of the files that it may extend.
struct Chain {
    std::vector<std::string> names;
    std::optional<std::filesystem::path> folder;
};

void take_source(YamlReader& constant, const std::string& key, Draft& draft) {
    const auto name = constant.find_text("source");
    if (name && !draft.sources.contains(*name))
        constant.fail_key("source", fmt::format("'{}' is not among the 'sources' of this file", *name));
    draft.origin[key] = name ? draft.sources.at(*name) : std::string{};
    draft.given.insert(key);
}

// A constant must state the unit of its field: guards against values in another unit.
void check_unit(YamlReader& constant, std::string_view unit) {
    const auto text = constant.find_text("unit");
    if (text.value_or("") == unit) return;
    if (unit.empty()) constant.fail_key("unit", fmt::format("'{}'; this constant has no unit", *text));
    if (!text) constant.fail_here(fmt::format("'unit' is missing; it must be {}", unit));
    constant.fail_key("unit", fmt::format("'{}'; it must be {}", *text, unit));
}

// key: {value: 20.7, unit: uS, source: name}
void read_constant(YamlReader& section, const std::string& key, const Field& field, Draft& draft) {
    auto constant = section.find_map(key);
    if (!constant) return;
    check_unit(*constant, field.info.unit);
    take_source(*constant, field.name, draft);
    const auto value = constant->text("value");
    constant->done();
    section.at(key, [&] { field.set(value); });
}

CurvePiece read_piece(YamlReader map) {
    CurvePiece piece;
    piece.form = map.name<CurveForm>("form");
    piece.coefficients = map.numbers("coefficients");
    if (const auto below = map.find_number("below")) piece.below = *below;
    if (const auto min = map.find_number("min")) piece.min = *min;
    if (const auto max = map.find_number("max")) piece.max = *max;
    map.done();
    return piece;
}

void read_curve(YamlReader& section, const std::string& key, const CurveField& field, Draft& draft) {
    auto map = section.find_map(key);
    if (!map) return;
    check_unit(*map, field.unit);
    take_source(*map, field.name, draft);
    Curve curve;
    if (const auto scale = map->find_number("argument_at_g_max")) curve.argument_at_g_max = *scale;
    if (const auto scale = map->find_number("value_scale")) curve.value_scale = *scale;
    for (auto& piece : map->maps("pieces")) curve.pieces.push_back(read_piece(std::move(piece)));
    if (curve.pieces.size() > 64)
        map->fail_key("pieces", fmt::format("{} pieces; expected at most 64", curve.pieces.size()));
    map->done();
    section.at(key, [&] { validate(curve, field.name); });
    field.curve = std::move(curve);
}

bool in_section(std::string_view name, std::string_view section) {
    return name.starts_with(section) && name.substr(section.size()).starts_with('.');
}

// Reads the constants and curves of a section, in the order of the field list.
void read_section(YamlReader map, std::string_view section, Draft& draft) {
    for (const auto& f : fields(draft.chip))
        if (in_section(f.name, section)) read_constant(map, f.name.substr(section.size() + 1), f, draft);
    for (const auto& c : curve_fields(draft.chip))
        if (in_section(c.name, section)) read_curve(map, c.name.substr(section.size() + 1), c, draft);
    map.done();
}

void read_sections(YamlReader& root, Draft& draft) {
    for (const auto section : kSections) {
        auto map = root.find_map(section);
        if (!map) continue;
        if (section == "pulses" && !draft.chip.pulses) draft.chip.pulses.emplace();
        read_section(std::move(*map), section, draft);
    }
    // By default the programming error refers to the g_max of the chip.
    auto& device = draft.chip.device;
    if (!draft.origin.contains("device.programming_reference_g_max"))
        device.programming_reference_g_max_us = device.g_max_us;
}

// posterior:
//   core.adc_noise: [1.2, 1.5, ...]
// Constants given by this file are no longer drawn from the posterior.
void read_posterior(YamlReader& root, Draft& draft) {
    for (const auto& name : draft.given) draft.chip.posterior.erase(name);
    auto map = root.find_map("posterior");
    if (!map) return;
    draft.chip.posterior.clear();
    for (const auto& key : map->node().keys) draft.chip.posterior[key.text] = map->numbers(key.text);
    root.at("posterior", [&] { check_posterior(draft.chip); });
}

void read_sources(YamlReader& root, Draft& draft) {
    auto map = root.find_map("sources");
    if (!map) return;
    for (const auto& key : map->node().keys) draft.sources[key.text] = map->text(key.text);
}

// Line of the constant that a message of validate() starts with; 0 if this file does not give it.
int line_of(const YamlReader& root, std::string_view message) {
    const auto name = message.substr(0, message.find(':'));
    const auto section = name.substr(0, name.find('.'));
    const auto& top = root.node();
    for (std::size_t i = 0; i < top.keys.size(); ++i) {
        if (top.keys[i].text != section || section.size() == name.size()) continue;
        for (const auto& key : top.children[i].keys)
            if (key.text == name.substr(section.size() + 1)) return key.line;
    }
    return 0;
}

Draft read_draft(const YamlTree& tree, const Chain& chain);

// `extends: hermes` is a preset, `extends: mine.yaml` a file in the same folder.
Draft read_base(const std::string& name, Chain chain) {
    const bool file = name.ends_with(".yaml") || name.ends_with(".yml");
    if (name.find('/') != std::string::npos || (file && !chain.folder))
        fail(ErrorCode::bad_config,
             fmt::format("extends: '{}'; expected a preset{}: {}", name,
                         chain.folder ? " or a file in the same folder" : "", fmt::join(chip_names(), ", ")));
    const auto id = file ? (*chain.folder / name).string() : name;
    const bool again = std::ranges::find(chain.names, id) != chain.names.end();
    chain.names.push_back(id);
    if (again)
        fail(ErrorCode::bad_config, fmt::format("extends: a cycle: {}", fmt::join(chain.names, " -> ")));
    if (chain.names.size() > kMaxChain)
        fail(ErrorCode::bad_config, fmt::format("extends: a chain of more than {} chips", kMaxChain));
    if (file) return read_draft(read_yaml(id), chain);
    chain.folder.reset();
    return read_draft(parse_yaml(chip_preset_text(name), fmt::format("chips/{}.yaml", name)), chain);
}

Draft read_draft(const YamlTree& tree, const Chain& chain) {
    YamlReader root(tree);
    Draft draft;
    if (const auto base = root.find_text("extends"))
        draft = root.at("extends", [&] { return read_base(*base, chain); });
    draft.given.clear();
    draft.chip.name = root.text("name");
    draft.chip.description = root.text("description");
    read_sources(root, draft);
    read_sections(root, draft);
    read_posterior(root, draft);
    root.done();
    try {
        validate(draft.chip);
    } catch (const Error& e) {
        fail_at(tree.where, line_of(root, e.what()), e.what());
    }
    return draft;
}

// In the order of the sections; constants before curves.
std::vector<Provenance> provenance_of(Draft& draft) {
    std::vector<Provenance> out;
    const auto add = [&](const std::string& name) {
        const auto it = draft.origin.find(name);
        if (it != draft.origin.end()) out.push_back({it->first, it->second});
    };
    for (const auto section : kSections) {
        for (const auto& f : fields(draft.chip))
            if (in_section(f.name, section)) add(f.name);
        for (const auto& c : curve_fields(draft.chip))
            if (in_section(c.name, section)) add(c.name);
    }
    return out;
}

ChipSpec read_chip(const YamlTree& tree, const Chain& chain) {
    auto draft = read_draft(tree, chain);
    draft.chip.provenance = provenance_of(draft);
    return std::move(draft.chip);
}

// JSON strings are valid YAML.
std::string quoted_text(std::string_view text) {
    return detail::string_json(text.empty() ? "unnamed" : text);
}

std::string unit_text(std::string_view unit) {
    return unit.empty() ? "" : fmt::format(", unit: {}", unit);
}

std::string bound(std::string_view key, double value) {
    return std::isfinite(value) ? fmt::format(", {}: {}", key, value) : "";
}

std::string piece_text(const CurvePiece& p) {
    return fmt::format("{{form: {}, coefficients: [{}]{}{}{}}}", to_string(p.form),
                       fmt::join(p.coefficients, ", "), bound("below", p.below), bound("min", p.min),
                       bound("max", p.max));
}

std::string curve_text(const Curve& curve) {
    std::vector<std::string> pieces;
    for (const auto& p : curve.pieces) pieces.push_back(piece_text(p));
    return fmt::format("argument_at_g_max: {}, value_scale: {}, pieces: [{}]", curve.argument_at_g_max,
                       curve.value_scale, fmt::join(pieces, ", "));
}

}  // namespace

std::vector<std::string> chip_names() {
    return {kNames.begin(), kNames.end()};
}

std::string_view chip_preset_text(const std::string& name) {
    return *kTexts[find_name(name, kNames, "chip")];
}

// Parsed once: a sweep requests the same preset thousands of times.
ChipSpec chip_preset(const std::string& name) {
    static std::mutex parsing;
    static std::map<std::string, ChipSpec> parsed;
    const auto text = chip_preset_text(name);
    const std::scoped_lock lock(parsing);
    const auto place = parsed.find(name);
    if (place != parsed.end()) return place->second;
    return parsed.emplace(name, parse_chip(text, fmt::format("chips/{}.yaml", name))).first->second;
}

ChipSpec parse_chip(std::string_view text, std::string_view where) {
    return read_chip(parse_yaml(text, std::string(where)), {});
}

ChipSpec load_chip(const std::filesystem::path& path) {
    const auto folder = path.parent_path();
    return read_chip(read_yaml(path), {.names = {(folder / path.filename()).string()}, .folder = folder});
}

std::string chip_text(const ChipSpec& chip) {
    // Sources are named s1, s2, ... in the order of the constants.
    std::map<std::string, std::string> names;
    std::map<std::string, std::string> references;
    std::string sources;
    for (const auto& [key, source] : chip.provenance) {
        if (source.empty()) continue;
        const auto [it, is_new] = names.emplace(source, fmt::format("s{}", names.size() + 1));
        if (is_new) sources += fmt::format("  {}: {}\n", it->second, quoted_text(source));
        references[key] = fmt::format(", source: {}", it->second);
    }
    if (!sources.empty()) sources.insert(0, "sources:\n");
    // The section is the part of a name before the dot.
    std::map<std::string, std::string> sections;
    const auto add = [&](const std::string& name, const std::string& content, std::string_view unit) {
        const auto point = name.find('.');
        sections[name.substr(0, point)] += fmt::format("  {}: {{{}{}{}}}\n", name.substr(point + 1), content,
                                                       unit_text(unit), references[name]);
    };
    ChipSpec copy = chip;  // fields need a mutable object
    for (const auto& f : fields(copy)) {
        const auto value = f.json();
        // null: unbounded, the default.
        if (value != "null") add(f.name, "value: " + value, f.info.unit);
    }
    for (const auto& c : curve_fields(copy)) {
        if (!c.curve.pieces.empty()) add(c.name, curve_text(c.curve), c.unit);
    }
    auto text = fmt::format("name: {}\ndescription: {}\n{}", quoted_text(chip.name),
                            quoted_text(chip.description), sources);
    for (const auto& [section, lines] : sections) text += fmt::format("{}:\n{}", section, lines);
    if (!chip.posterior.empty()) text += "posterior:\n";
    for (const auto& [name, draws] : chip.posterior)
        text += fmt::format("  {}: [{}]\n", name, fmt::join(draws, ", "));
    return text;
}

}  // namespace imka

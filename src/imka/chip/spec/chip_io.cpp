#include "imka/chip/spec/chip_io.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <optional>
#include <sstream>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/chip/spec/chip_fields.hpp"

namespace imka {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;
constexpr int kMaxDepth = 8;  // what a chip needs is 5

[[noreturn]] void fail_at(std::string_view where, int line, std::string_view what) {
    fail(ErrorCode::bad_config, fmt::format("{}: line {}: {}", where, line + 1, what));
}

// Refuses, before any tree is built, what would make a small file cost much: aliases multiply text, nesting
// eats the stack.
class Guard : public YAML::EventHandler {
public:
    explicit Guard(std::string_view where) : where_(where) {}

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (documents_++ > 0) fail_at(where_, mark.line, "a second document; one belongs here");
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
    void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
        fail_at(where_, mark.line, fmt::format("the anchor '&{}'; write values out", name));
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        fail_at(where_, mark.line, "an alias; write values out");
    }
    void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
    void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {
        enter(mark);
    }
    void OnSequenceEnd() override { --depth_; }
    void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {
        enter(mark);
    }
    void OnMapEnd() override { --depth_; }

private:
    void enter(const YAML::Mark& mark) {
        if (++depth_ > kMaxDepth)
            fail_at(where_, mark.line, fmt::format("nested more than {} deep", kMaxDepth));
    }

    std::string_view where_;
    int documents_ = 0;
    int depth_ = 0;
};

// A mapping whose keys are taken one by one; what is left at the end was not known. `path` is its place in
// the file, "device." or "".
class Mapping {
public:
    Mapping(const YAML::Node& node, std::string_view where, std::string path)
        : where_(where), path_(std::move(path)), line_(node.Mark().line) {
        if (!node.IsMap()) fail_here("'key: value' pairs belong here");
        for (const auto& item : node) {
            if (!item.first.IsScalar()) fail_at(where_, item.first.Mark().line, "a key must be plain text");
            const auto& key = item.first.Scalar();
            const int line = item.first.Mark().line;
            if (!values_.emplace(key, item.second).second)
                fail_at(where_, line, quoted(key) + " stands twice");
            lines_.emplace(key, line);
        }
    }

    std::string_view where() const { return where_; }
    std::string path(const std::string& key) const { return path_ + key; }
    // The line of a key that was there; of the mapping otherwise.
    int line(const std::string& key) const {
        const auto it = lines_.find(key);
        return it == lines_.end() ? line_ : it->second;
    }
    [[noreturn]] void fail_here(const std::string& what) const {
        fail_at(where_, line_,
                path_.empty() ? what : fmt::format("{}: {}", path_.substr(0, path_.size() - 1), what));
    }
    [[noreturn]] void fail_key(const std::string& key, std::string_view what) const {
        fail_at(where_, line(key), fmt::format("{}{}: {}", path_, key, what));
    }

    std::optional<YAML::Node> find(const std::string& key) {
        const auto it = values_.find(key);
        if (it == values_.end()) return std::nullopt;
        const YAML::Node node = it->second;
        values_.erase(it);
        return node;
    }
    YAML::Node take(const std::string& key) {
        const auto node = find(key);
        if (!node) fail_here(quoted(key) + " is missing");
        return *node;
    }
    std::optional<Mapping> find_mapping(const std::string& key) {
        const auto node = find(key);
        if (!node) return std::nullopt;
        if (!node->IsMap()) fail_key(key, "'key: value' pairs belong here");
        return Mapping(*node, where_, path(key) + ".");
    }
    std::optional<std::string> find_text(const std::string& key) {
        const auto node = find(key);
        if (!node) return std::nullopt;
        if (!node->IsScalar() || node->Scalar().empty()) fail_key(key, "plain text belongs here");
        return node->Scalar();
    }
    std::string text(const std::string& key) {
        const auto value = find_text(key);
        if (!value) fail_here(quoted(key) + " is missing");
        return *value;
    }
    std::optional<double> find_number(const std::string& key) {
        const auto value = find_text(key);
        if (!value) return std::nullopt;
        return number(key, *value);
    }
    std::vector<double> numbers(const std::string& key) {
        const auto list = take(key);
        if (!list.IsSequence()) fail_key(key, "a list of numbers belongs here");
        std::vector<double> out;
        for (const auto& item : list) {
            if (!item.IsScalar()) fail_key(key, "a list of numbers belongs here");
            out.push_back(number(key, item.Scalar()));
        }
        return out;
    }
    void done() const {
        if (values_.empty()) return;
        const auto& key = values_.begin()->first;
        fail_at(where_, line(key), quoted(path_ + key) + " is not a known key");
    }

private:
    static std::string quoted(const std::string& key) { return fmt::format("'{}'", key); }
    double number(const std::string& key, const std::string& text) const {
        try {
            return detail::parse_number(text, path(key));
        } catch (const Error& e) {
            fail_at(where_, line(key), e.what());
        }
    }

    std::string_view where_;
    std::string path_;
    int line_;
    std::map<std::string, YAML::Node> values_;
    std::map<std::string, int> lines_;
};

// What the constants of a section share: the sources they may name, the list of where each comes from.
struct Context {
    std::map<std::string, std::string> sources;
    std::vector<Provenance> provenance;
};

void take_source(Mapping& constant, const std::string& key, Context& context) {
    const auto name = constant.find_text("source");
    if (name && !context.sources.contains(*name))
        constant.fail_key("source", fmt::format("'{}' is not among the 'sources' of this file", *name));
    context.provenance.push_back({key, name ? context.sources.at(*name) : std::string{}});
}

// A constant has the unit of its field, written out, so that a factor of a million cannot slip in.
void check_unit(Mapping& constant, std::string_view unit) {
    const auto text = constant.find_text("unit");
    if (text.value_or("") == unit) return;
    if (unit.empty()) constant.fail_key("unit", fmt::format("'{}' where none belongs", *text));
    if (!text) constant.fail_here(fmt::format("'unit' is missing; it must be {}", unit));
    constant.fail_key("unit", fmt::format("'{}'; it must be {}", *text, unit));
}

// key: {value: 20.7, unit: uS, source: name}
std::optional<std::string> find_constant(Mapping& section, const std::string& key, std::string_view unit,
                                         Context& context) {
    auto constant = section.find_mapping(key);
    if (!constant) return std::nullopt;
    check_unit(*constant, unit);
    take_source(*constant, section.path(key), context);
    auto value = constant->text("value");
    constant->done();
    return value;
}

CurvePiece read_piece(Mapping map) {
    CurvePiece piece;
    try {
        piece.form = parse_enum<CurveForm>(map.text("form"));
    } catch (const Error& e) {
        map.fail_key("form", e.what());
    }
    piece.coefficients = map.numbers("coefficients");
    if (const auto below = map.find_number("below")) piece.below = *below;
    if (const auto min = map.find_number("min")) piece.min = *min;
    if (const auto max = map.find_number("max")) piece.max = *max;
    map.done();
    return piece;
}

void read_curve(Mapping& section, const std::string& key, std::string_view unit, Context& context,
                Curve& out) {
    auto map = section.find_mapping(key);
    if (!map) return;
    check_unit(*map, unit);
    take_source(*map, section.path(key), context);
    if (const auto scale = map->find_number("argument_at_g_max")) out.argument_at_g_max = *scale;
    if (const auto scale = map->find_number("value_scale")) out.value_scale = *scale;
    const auto pieces = map->take("pieces");
    if (!pieces.IsSequence() || pieces.size() == 0 || pieces.size() > 64)
        map->fail_key("pieces", "a list of 1 to 64 pieces belongs here");
    for (std::size_t i = 0; i < pieces.size(); ++i)
        out.pieces.push_back(
            read_piece(Mapping(pieces[i], map->where(), map->path(fmt::format("pieces[{}].", i + 1)))));
    map->done();
}

// Calls validate on what a section gave. Its messages begin with the key that is wrong, so the line is known.
template <class Spec>
void validate_section(const Mapping& section, const Spec& spec) {
    try {
        validate(spec);
    } catch (const Error& e) {
        const std::string message = e.what();
        fail_at(section.where(), section.line(message.substr(0, message.find(':'))), section.path(message));
    }
}

void set_at(const Mapping& section, const std::string& key, const Field& field, const std::string& text) {
    try {
        field.set(text);
    } catch (const Error& e) {
        fail_at(section.where(), section.line(key), e.what());
    }
}

// Takes the constants and curves of a section, in the order of the field list.
void read_section(Mapping& map, ChipSpec& chip, Context& context) {
    const auto key_of = [&](std::string_view name) -> std::optional<std::string> {
        if (!name.starts_with(map.path(""))) return std::nullopt;
        return std::string(name.substr(map.path("").size()));
    };
    for (const auto& field : fields(chip)) {
        const auto key = key_of(field.name);
        if (!key) continue;
        if (const auto text = find_constant(map, *key, field.info.unit, context))
            set_at(map, *key, field, *text);
    }
    for (const auto& curve : curve_fields(chip))
        if (const auto key = key_of(curve.name)) read_curve(map, *key, curve.unit, context, curve.curve);
    map.done();
}

void read_device(Mapping map, ChipSpec& chip, Context& context) {
    auto& reference = chip.device.programming_reference_g_max_us;
    reference = 0.0;
    read_section(map, chip, context);
    if (reference == 0.0) reference = chip.device.g_max_us;
    validate_section(map, chip.device);
}

void read_core(Mapping map, ChipSpec& chip, Context& context) {
    read_section(map, chip, context);
    validate_section(map, chip.core);
}

void read_pulses(Mapping map, ChipSpec& chip, Context& context) {
    chip.pulses.emplace();
    read_section(map, chip, context);
    validate_section(map, *chip.pulses);
}

std::map<std::string, std::string> read_sources(Mapping& root) {
    std::map<std::string, std::string> sources;
    const auto node = root.find("sources");
    if (!node) return sources;
    if (!node->IsMap()) root.fail_key("sources", "'name: where it was published' pairs belong here");
    Mapping map(*node, root.where(), "sources.");
    for (const auto& item : *node) sources[item.first.Scalar()] = map.text(item.first.Scalar());
    return sources;
}

YAML::Node load_tree(std::string_view text, std::string_view where) {
    if (text.size() > kMaxBytes)
        fail(ErrorCode::bad_config,
             fmt::format("{}: over {} bytes; a chip needs a few thousand", where, kMaxBytes));
    try {
        Guard guard(where);
        std::istringstream in{std::string(text)};
        YAML::Parser parser(in);
        while (parser.HandleNextDocument(guard)) {
        }
        return YAML::Load(std::string(text));
    } catch (const YAML::Exception& e) {
        fail(ErrorCode::bad_config, fmt::format("{}: not valid YAML: {}", where, e.what()));
    }
}

}  // namespace

ChipSpec parse_chip(std::string_view text, std::string_view where) {
    Mapping root(load_tree(text, where), where, "");
    ChipSpec chip;
    chip.name = root.text("name");
    chip.description = root.text("description");
    Context context{.sources = read_sources(root), .provenance = {}};
    if (auto map = root.find_mapping("chip")) read_section(*map, chip, context);
    if (auto map = root.find_mapping("device")) read_device(std::move(*map), chip, context);
    if (auto map = root.find_mapping("core")) read_core(std::move(*map), chip, context);
    if (auto map = root.find_mapping("pulses")) read_pulses(std::move(*map), chip, context);
    root.done();
    chip.provenance = std::move(context.provenance);
    return chip;
}

ChipSpec load_chip(const std::filesystem::path& path) {
    return parse_chip(read_file(path, kMaxBytes), path.string());
}

}  // namespace imka

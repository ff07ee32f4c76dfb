#include "imka/chip/chip_io.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"

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

// The same, parsed as the type of `out`, which keeps its value where the key is absent.
template <class T>
void read_constant(Mapping& section, const std::string& key, std::string_view unit, Context& context,
                   T& out) {
    const auto text = find_constant(section, key, unit, context);
    if (!text) return;
    try {
        out = Codec<T>::parse(*text, section.path(key));
    } catch (const Error& e) {
        fail_at(section.where(), section.line(key), e.what());
    }
}

void read_count(Mapping& section, const std::string& key, std::string_view unit, Context& context, int& out) {
    std::int64_t value = out;
    read_constant(section, key, unit, context, value);
    if (value < 0 || value > 1'000'000'000) section.fail_key(key, fmt::format("{} is out of range", value));
    out = static_cast<int>(value);
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

DeviceModel read_device(Mapping map, Context& context) {
    DeviceModel m;
    const auto number = [&](const std::string& key, std::string_view unit, double& out) {
        read_constant(map, key, unit, context, out);
    };
    number("g_max", "uS", m.g_max_us);
    m.programming_reference_g_max_us = m.g_max_us;
    read_count(map, "devices_per_polarity", "", context, m.devices_per_polarity);
    number("t_0", "s", m.t_0_seconds);
    number("t_read", "s", m.t_read_seconds);
    read_curve(map, "programming_error", "uS", context, m.programming_error_us);
    number("programming_reference_g_max", "uS", m.programming_reference_g_max_us);
    number("programming_scale", "", m.programming_scale);
    number("zero_threshold", "uS", m.zero_threshold_us);
    read_curve(map, "drift_mean", "", context, m.drift_mean);
    read_curve(map, "drift_sd", "", context, m.drift_sd);
    number("drift_scale", "", m.drift_scale);
    read_curve(map, "read_noise", "", context, m.read_noise);
    number("read_noise_scale", "", m.read_noise_scale);
    number("read_noise_frozen_scale", "", m.read_noise_frozen_scale);
    number("read_noise_fresh_scale", "", m.read_noise_fresh_scale);
    number("programming_drift_correlation", "", m.programming_drift_correlation);
    number("stuck_at_reset_probability", "", m.stuck_at_reset_probability);
    number("stuck_at_max_probability", "", m.stuck_at_max_probability);
    number("g_floor", "uS", m.g_floor_us);
    number("g_ceiling", "uS", m.g_ceiling_us);
    map.done();
    validate_section(map, m);
    return m;
}

CoreSpec read_core(Mapping map, Context& context) {
    CoreSpec s;
    const auto read = [&](const std::string& key, std::string_view unit, auto& out) {
        read_constant(map, key, unit, context, out);
    };
    read_count(map, "rows", "", context, s.rows);
    read_count(map, "cols", "", context, s.cols);
    read("read_mode", "", s.read_mode);
    read("polarity_asymmetry", "", s.polarity_asymmetry);
    read_count(map, "input_levels", "", context, s.dac.levels);
    read("input_encoding", "", s.dac.encoding);
    read("input_step", "s", s.dac.step_seconds);
    read("counts_per_us", "counts/uS", s.adc.counts_per_us);
    read_count(map, "max_count", "counts", context, s.adc.max_count);
    read("rounding", "", s.adc.rounding);
    read("gain_sd", "", s.adc.gain_sd);
    read("negative_gain_sd", "", s.adc.negative_gain_sd);
    read("offset_sd", "counts", s.adc.offset_sd_counts);
    read("adc_noise", "counts", s.adc.noise_counts);
    read("fp16", "", s.affine.fp16);
    read_count(map, "output_bits", "", context, s.affine.output_bits);
    read("ir_drop", "", s.ir_drop.scale);
    read("wire_resistance", "ohm", s.ir_drop.wire_ohm);
    map.done();
    validate_section(map, s);
    return s;
}

PulseModel read_pulses(Mapping map, Context& context) {
    PulseModel m;
    const auto read = [&](const std::string& key, std::string_view unit, double& out) {
        read_constant(map, key, unit, context, out);
    };
    read("set_mean", "uS", m.set_mean_us);
    read("set_sd", "uS", m.set_sd_us);
    read("reset_conductance", "uS", m.reset_us);
    read("half_current", "uA", m.half_mean_ua);
    read("half_current_sd", "uA", m.half_sd_ua);
    read("current_width", "uA", m.width_ua);
    read("cycle_sd", "", m.cycle_sd);
    read("reset_current", "uA", m.reset_ua);
    read("drift_g_max", "uS", m.drift_g_max_us);
    read_curve(map, "drift_mean", "", context, m.drift_mean);
    read_curve(map, "drift_sd", "", context, m.drift_sd);
    read("device_share", "", m.device_share);
    read("glass_full", "", m.glass_full);
    read("settling", "", m.settling);
    read("t_verify", "s", m.t_verify_seconds);
    read_curve(map, "read_noise", "", context, m.read_noise);
    read("count_conductance", "uS", m.count_us);
    read("conversion_noise", "uS", m.conversion_noise_us);
    read_count(map, "verify_reads", "", context, m.verify_reads);
    read("pulse_voltage", "V", m.pulse_volts);
    read("reset_pulse", "s", m.reset_pulse_seconds);
    read("set_pulse", "s", m.set_pulse_seconds);
    read("set_current", "uA", m.set_ua);
    read("read_energy", "J", m.read_joules);
    read("product_energy", "J", m.product_joules);
    read("product_time", "s", m.product_seconds);
    read_count(map, "parallel_devices", "", context, m.parallel_devices);
    map.done();
    validate_section(map, m);
    return m;
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
    if (auto device = root.find_mapping("device")) chip.device = read_device(std::move(*device), context);
    if (auto core = root.find_mapping("core")) chip.core = read_core(std::move(*core), context);
    if (auto pulses = root.find_mapping("pulses")) chip.pulses = read_pulses(std::move(*pulses), context);
    root.done();
    chip.provenance = std::move(context.provenance);
    return chip;
}

ChipSpec load_chip(const std::filesystem::path& path) {
    return parse_chip(read_file(path, kMaxBytes), path.string());
}

}  // namespace imka

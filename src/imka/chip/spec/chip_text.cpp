#include "imka/chip/spec/chip_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/chip/spec/chip_fields.hpp"

namespace imka {
namespace {

// JSON strings are valid YAML.
std::string quoted_text(std::string_view text) {
    return detail::string_json(text.empty() ? "unnamed" : text);
}

// Names the sources s1, s2, ... in the order of the constants.
class Sources {
public:
    explicit Sources(const ChipSpec& chip) {
        for (const auto& p : chip.provenance) {
            if (p.source.empty()) continue;
            if (names_.emplace(p.source, fmt::format("s{}", names_.size() + 1)).second)
                texts_.push_back(p.source);
            source_of_[p.key] = p.source;
        }
    }
    std::string block() const {
        std::string out = texts_.empty() ? "" : "sources:\n";
        for (const auto& text : texts_) out += fmt::format("  {}: {}\n", names_.at(text), quoted_text(text));
        return out;
    }
    // ", source: s3", or empty.
    std::string reference(const std::string& key) const {
        const auto it = source_of_.find(key);
        return it == source_of_.end() ? "" : fmt::format(", source: {}", names_.at(it->second));
    }

private:
    std::vector<std::string> texts_;
    std::map<std::string, std::string> names_;
    std::map<std::string, std::string> source_of_;
};

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

// Lines of each section; the section is the part of a name before the dot.
class Sections {
public:
    void add(const std::string& name, const std::string& content) {
        const auto point = name.find('.');
        lines_[name.substr(0, point)] += fmt::format("  {}: {{{}}}\n", name.substr(point + 1), content);
    }
    std::string text() const {
        std::string out;
        for (const auto& [section, lines] : lines_) out += fmt::format("{}:\n{}", section, lines);
        return out;
    }

private:
    std::map<std::string, std::string> lines_;
};

}  // namespace

std::string chip_text(const ChipSpec& chip) {
    ChipSpec copy = chip;  // fields need a mutable object
    const Sources sources(chip);
    Sections sections;
    for (const auto& f : fields(copy)) {
        const auto value = f.json();
        if (value == "null") continue;  // unbounded, the default
        sections.add(f.name,
                     fmt::format("value: {}{}{}", value, unit_text(f.info.unit), sources.reference(f.name)));
    }
    for (const auto& c : curve_fields(copy)) {
        if (c.curve.pieces.empty()) continue;
        sections.add(c.name, curve_text(c.curve) + unit_text(c.unit) + sources.reference(c.name));
    }
    return fmt::format("name: {}\ndescription: {}\n{}{}", quoted_text(chip.name),
                       quoted_text(chip.description), sources.block(), sections.text());
}

}  // namespace imka

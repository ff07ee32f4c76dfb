// imka chip info: lists the chips, or the geometry, constants and sources of one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "chip/options.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/analyse/cost.hpp"
#include "imka/chip/spec/chip_fields.hpp"

namespace imka::app {
namespace {

void list_chips(const Context& context) {
    Json chips = Json::array();
    TextTable table = {{"name", "g_max", "devices per polarity", "programming by pulses", "description"}};
    for (const auto& name : chip_names()) {
        const auto spec = chip_preset(name);
        chips.push_back({{"name", name},
                         {"description", spec.description},
                         {"hash", chip_hash(spec)},
                         {"g_max_us", spec.device.g_max_us},
                         {"devices_per_polarity", spec.device.devices_per_polarity},
                         {"pulses", spec.pulses.has_value()}});
        table.push_back({name, fmt::format("{} uS", spec.device.g_max_us),
                         std::to_string(spec.device.devices_per_polarity), spec.pulses ? "yes" : "no",
                         spec.description});
    }
    if (context.json) return print_json({{"chips", chips}});
    print_out("{}\n'imka chip info NAME' shows every constant of a chip, with its source.\n",
              format_table(table));
}

Json constants_json(const std::vector<ConstantText>& constants) {
    Json list = Json::array();
    for (const auto& c : constants)
        list.push_back(
            {{"name", c.name}, {"value", c.value}, {"unit", c.unit}, {"help", c.help}, {"source", c.source}});
    return list;
}

// Sources are long and shared by many constants, so they are numbered and listed once.
class SourceList {
public:
    std::string number(const std::string& source) {
        if (source.empty()) return {};
        auto place = std::ranges::find(sources_, source);
        if (place == sources_.end()) place = sources_.insert(sources_.end(), source);
        return fmt::format("[{}]", place - sources_.begin() + 1);
    }
    void print() const {
        if (sources_.empty()) return;
        print_out(
            "\nSources (a constant without a source has its default value or was set on the command "
            "line):\n");
        for (std::size_t s = 0; s < sources_.size(); ++s) print_out("  [{}] {}\n", s + 1, sources_[s]);
    }

private:
    std::vector<std::string> sources_;
};

std::string plain(std::string value) {
    if (value.ends_with(".0")) value.resize(value.size() - 2);
    return value;
}

void print_constants(const ChipSpec& spec, const std::vector<ConstantText>& constants) {
    ChipSpec copy = spec;
    const auto curves = curve_fields(copy);
    SourceList sources;
    TextTable numbers = {{"constant", "value", "unit", "source", "meaning"}};
    TextTable functions = {{"function of u = g / g_max", "unit", "source", "pieces"}};
    for (const auto& c : constants) {
        const bool curve = std::ranges::any_of(curves, [&](const CurveField& f) { return f.name == c.name; });
        if (curve) {
            functions.push_back({c.name, c.unit, sources.number(c.source), c.value});
        } else {
            numbers.push_back({c.name, plain(c.value), c.unit, sources.number(c.source), c.help});
        }
    }
    print_out("\n{}\n{}", format_table(numbers), format_table(functions));
    sources.print();
}

Json or_null(const std::optional<double>& value) {
    return value ? Json(*value) : Json();
}

void show_chip(const ChipSpec& spec, const Context& context) {
    const auto c = chip_capacity(spec);
    const auto constants = describe(spec);
    if (context.json) {
        return print_json({{"name", spec.name},
                           {"description", spec.description},
                           {"hash", chip_hash(spec)},
                           {"chips", spec.chips},
                           {"cores", c.cores},
                           {"weights", c.weights},
                           {"devices", c.devices},
                           {"emulator_bytes", c.emulator_bytes},
                           {"product_seconds", c.product_seconds},
                           {"product_joules", or_null(c.product_joules)},
                           {"tops", c.tops},
                           {"tops_per_watt", or_null(c.tops_per_watt)},
                           {"constants", constants_json(constants)}});
    }
    print_out("{}: {}\n\n", spec.name, spec.description);
    print_out("{} of {} x {}{}: {} weights, {} devices ({} per weight)\n",
              count_text(c.cores, "core", "cores"), spec.core.rows, spec.core.cols,
              spec.chips > 1 ? fmt::format(" on {} chips", spec.chips) : "", c.weights, c.devices,
              2 * spec.device.devices_per_polarity);
    print_out("a product of a core: {:.4g} ns, {}; all cores: {:.3g} TOPS{}\n", 1e9 * c.product_seconds,
              c.product_joules ? fmt::format("{:.4g} nJ", 1e9 * *c.product_joules) : "energy unknown", c.tops,
              c.tops_per_watt ? fmt::format(", {:.3g} TOPS/W", *c.tops_per_watt) : "");
    print_out("programming by pulses: {}\n", spec.pulses ? "modelled" : "no model; statistical only");
    print_out("memory of the emulator with every device programmed: {:.0f} MB\n", c.emulator_bytes / 1e6);
    print_out("hash of the constants: {}\n", chip_hash(spec));
    print_constants(spec, constants);
}

}  // namespace

void add_chip_info(CLI::App& chip, Context& context) {
    struct InfoArgs {
        ChipArgs chip;
        std::string name;
    };
    auto args = std::make_shared<InfoArgs>();
    args->chip.chip.clear();
    auto* verb =
        add_verb(chip, "info", "List the chips, or every constant of one chip with its unit and source",
                 {"imka chip info", "imka chip info hermes --chip-set core.adc_noise=2"});
    add_common_options(*verb, context);
    verb->add_option("name", args->name, "Chip name or YAML file; default: list all chips")
        ->type_name("NAME|FILE.yaml");
    add_own_chip_options(*verb, args->chip);
    verb->callback([args, verb, &context] {
        if (!args->name.empty()) {
            reject_without_effect(*verb, {"--backend"}, "the chip is given by its name");
            args->chip.chip = args->name;
        }
        if (!args->chip.chip.empty()) return show_chip(load_spec(args->chip), context);
        if (!args->chip.chip_set.empty())
            fail(ErrorCode::bad_usage,
                 "--chip-set needs a chip, as in 'imka chip info hermes --chip-set ...'");
        list_chips(context);
    });
}

}  // namespace imka::app

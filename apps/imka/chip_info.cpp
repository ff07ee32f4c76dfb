// imka chip info: which chips there are; geometry, constants and their sources of one.
#include <fmt/format.h>

#include <memory>

#include "chip_commands.hpp"
#include "chip_options.hpp"
#include "imka/chip/chip_fields.hpp"

namespace imka::app {
namespace {

struct Geometry {
    std::uint64_t cores = 0;
    std::uint64_t cells = 0;  // weights
    std::uint64_t devices = 0;
    double bytes = 0.0;  // that the emulator needs for all of them
};

Geometry geometry(const ChipSpec& spec) {
    Geometry g;
    g.cores = static_cast<std::uint64_t>(spec.cores) * static_cast<std::uint64_t>(spec.chips);
    g.cells =
        g.cores * static_cast<std::uint64_t>(spec.core.rows) * static_cast<std::uint64_t>(spec.core.cols);
    g.devices = g.cells * 2 * static_cast<std::uint64_t>(spec.device.devices_per_polarity);
    // Weight, and for each polarity conductance, exponent and noise.
    g.bytes = static_cast<double>(g.cells * (1 + 2 * 3) * sizeof(float));
    return g;
}

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
    fmt::print("{}\nimka chip info NAME shows every constant of one, with its source.\n",
               format_table(table));
}

Json constants_json(const std::vector<ConstantText>& constants) {
    Json list = Json::array();
    for (const auto& c : constants)
        list.push_back(
            {{"name", c.name}, {"value", c.value}, {"unit", c.unit}, {"help", c.help}, {"source", c.source}});
    return list;
}

// Sources are long and shared by many constants: numbered, and listed once.
void print_constants(const std::vector<ConstantText>& constants) {
    std::vector<std::string> sources;
    TextTable table = {{"constant", "value", "unit", "source", "meaning"}};
    for (const auto& c : constants) {
        std::string number;
        if (!c.source.empty()) {
            auto place = std::ranges::find(sources, c.source);
            if (place == sources.end()) place = sources.insert(sources.end(), c.source);
            number = fmt::format("[{}]", place - sources.begin() + 1);
        }
        table.push_back({c.name, c.value, c.unit, number, c.help});
    }
    fmt::print("\n{}", format_table(table));
    if (sources.empty()) return;
    fmt::print("\nSources (a constant without one has its default or was set here):\n");
    for (std::size_t s = 0; s < sources.size(); ++s) fmt::print("  [{}] {}\n", s + 1, sources[s]);
}

void show_chip(const ChipSpec& spec, const Context& context) {
    const auto g = geometry(spec);
    const auto constants = describe(spec);
    if (context.json) {
        return print_json({{"name", spec.name},
                           {"description", spec.description},
                           {"hash", chip_hash(spec)},
                           {"chips", spec.chips},
                           {"cores", g.cores},
                           {"weights", g.cells},
                           {"devices", g.devices},
                           {"emulator_bytes", g.bytes},
                           {"constants", constants_json(constants)}});
    }
    fmt::print("{}: {}\n\n", spec.name, spec.description);
    fmt::print("{} core{} of {} x {}{}: {} weights, {} devices ({} per weight)\n", g.cores,
               g.cores == 1 ? "" : "s", spec.core.rows, spec.core.cols,
               spec.chips > 1 ? fmt::format(" on {} chips", spec.chips) : "", g.cells, g.devices,
               2 * spec.device.devices_per_polarity);
    fmt::print("programming by pulses: {}\n", spec.pulses ? "modelled" : "not known; statistical only");
    fmt::print("memory of the emulator with every device programmed: {:.0f} MB\n", g.bytes / 1e6);
    fmt::print("hash of the constants: {}\n", chip_hash(spec));
    print_constants(constants);
}

}  // namespace

void add_chip_info(CLI::App& chip, Context& context) {
    struct Args {
        ChipArgs chip;
        std::string name;
    };
    auto args = std::make_shared<Args>();
    args->chip.chip.clear();
    auto* verb = add_verb(chip, "info", "Which chips there are; every constant of one, with unit and source",
                          {"imka chip info", "imka chip info hermes --set core.adc_noise=2"});
    add_common_options(*verb, context);
    verb->add_option("name", args->name, "A chip or its YAML file; none: a list")
        ->type_name("NAME|FILE.yaml");
    add_chip_options(*verb, args->chip);
    verb->callback([args, &context] {
        if (!args->name.empty()) args->chip.chip = args->name;
        if (!args->chip.chip.empty()) return show_chip(load_spec(args->chip), context);
        if (!args->chip.overrides.empty())
            fail(ErrorCode::bad_usage,
                 "--set changes a chip: name one, as in 'imka chip info hermes --set ...'");
        list_chips(context);
    });
}

}  // namespace imka::app

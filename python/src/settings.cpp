#include "settings.hpp"

#include <nanobind/stl/string.h>

#include "imka/attention/attention.hpp"

namespace imka::python {
namespace {

nb::list described(const Fields& fields) {
    nb::list list;
    for (const auto& f : fields) {
        nb::dict entry;
        entry["name"] = f.name;
        entry["type"] = f.type;
        entry["help"] = std::string(f.info.help);
        entry["unit"] = std::string(f.info.unit);
        entry["default"] = f.json();
        list.append(entry);
    }
    return list;
}

// The field lists by group, with defaults as JSON text.
nb::dict field_lists() {
    RunConfig config;
    nb::dict groups;
    groups["features"] = described(fields(config.features));
    groups["ridge"] = described(fields(config.ridge));
    groups["chip"] = described(fields(config.chip));
    groups["build"] = described(fields(config.chip.projection));
    groups["read"] = described(fields(config.read));
    groups["run"] = described(fields(config));
    AttentionConfig attention;
    groups["attention"] = described(fields(attention));
    return groups;
}

// Defaults of arguments that are in no field list.
nb::dict argument_defaults() {
    const AttentionOptions attention;
    nb::dict defaults;
    defaults["chip"] = performer_defaults().backend.name;
    defaults["causal"] = attention.causal;
    defaults["layer"] = OmegaDraw{}.layer;
    return defaults;
}

}  // namespace

void apply_settings(const Settings& settings, const Fields& fields) {
    for (const auto& [name, text] : settings) set_field(fields, name, text);
}

RunConfig run_config(const Settings& settings) {
    RunConfig config;
    apply_settings(settings, fields(config));
    validate(config);
    return config;
}

BuildConfig build_config(const Settings& settings) {
    BuildConfig config;
    apply_settings(settings, fields(config));
    validate(config);
    return config;
}

void bind_settings(nb::module_& m) {
    m.def("field_lists", &field_lists, "The settings by group: name, type, help, unit and default (JSON).");
    m.def("argument_defaults", &argument_defaults,
          "Defaults of arguments that are in no field list, by name.");
}

}  // namespace imka::python

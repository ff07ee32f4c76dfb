#include "run_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/data/registry.hpp"
#include "imka/data/synthetic.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/io/settings.hpp"
#include "imka/kernel/kernel.hpp"

namespace imka::app {

std::filesystem::path temporary_folder() {
    const char* folder = std::getenv("TMPDIR");
    return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

void add_config_options(CLI::App& verb, RunArgs& args) {
    verb.add_option("--config", args.config_file, "YAML file with settings; flags and --set override it")
        ->check(CLI::ExistingFile);
    verb.add_option("--set", args.overrides, "Override one setting, e.g. --set gamma=0.1")
        ->type_name("KEY=VALUE");
}

void add_seed_option(CLI::App& verb, RunArgs& args) {
    verb.add_option_function<std::string>(
            "--seed",
            [&args](const std::string& text) {
                (void)Codec<std::uint64_t>::parse(text, "seed");  // one, not a list
                args.given.emplace_back("seeds", text);
            },
            "A single seed")
        ->type_name("integer")
        ->excludes("--seeds");
}

void add_feature_options(CLI::App& verb, RunArgs& args) {
    add_config_options(verb, args);
    add_field_options(verb, fields(args.config),
                      {"kernel", "gamma", "sampler", "norms", "form", "truncation", "n_components",
                       "log_ratio", "backend", "seeds"},
                      args.given);
    add_seed_option(verb, args);
}

void add_chip_options(CLI::App& verb, RunArgs& args, ChipUse use) {
    std::vector<std::string> names;
    for (const auto& f : run_family(args.config).chip_fields(args.config)) {
        if (f.name == "read_seconds" || f.name == "chip_set") continue;  // --at, --chip-set
        if (use == ChipUse::fit || !f.name.starts_with("fit_")) names.push_back(f.name);
    }
    add_field_options(verb, fields(args.config), names, args.given);
    add_chip_set_option(verb, "--chip-set",
                        [&args](const std::string& text) { args.given.emplace_back("chip_set", text); });
    add_at_option(verb, "--at,--read-seconds", "0", [&args](const std::string& text) {
        args.given.emplace_back("read_seconds", fmt::format("{}", parse_duration(text, "--at")));
    });
    for (const auto* name : {"chip_set", "at"}) names.emplace_back(name);
    for (auto name : names) {
        std::ranges::replace(name, '_', '-');
        verb.get_option("--" + name)->group("With a chip as backend");
    }
}

void add_draws_option(CLI::App& verb, RunArgs& args) {
    bind_fields(verb, {field("chip_draws", args.chip_draws,
                             range::between(0, 1000,
                                            "Also run with this many draws of the chip's constants from the "
                                            "posterior of their fit, and report the spread; 0: none"))});
    verb.get_option("--chip-draws")->group("With a chip as backend");
}

void add_unknowns(std::string_view kind, const RunArgs& args, const RunSource& data, const Exec& exec,
                  RunResult& result) {
    if (args.chip_draws > 0) result.unknowns = run_draws(kind, args.config, data, args.chip_draws, exec);
}

std::string unknowns_text(const RunResult& result) {
    if (!result.unknowns) return {};
    std::vector<std::string> parts;
    for (const auto& [name, value] : result.unknowns->deviations) {
        const bool percent = name == "accuracy";
        auto label = name == "gram_error" ? std::string("Gram error") : name;
        parts.push_back(percent ? fmt::format("{} ± {:.2f} %", label, 100.0 * value)
                                : fmt::format("{} ± {:.2g}", label, value));
    }
    return fmt::format("chip constants   {} ({} draws of their posterior)\n", fmt::join(parts, ", "),
                       result.unknowns->draws);
}

void add_dataset_options(CLI::App& verb, RunArgs& args) {
    add_field_options(verb, fields(args.config), {"dataset", "protocol", "split_seed", "gram_rows"},
                      args.given);
}

void add_file_options(CLI::App& verb, RunArgs& args) {
    add_field_options(verb, fields(args.config),
                      {"format", "label_column", "header", "drop_columns", "missing"}, args.given);
}

void add_input_options(CLI::App& verb, RunArgs& args) {
    bind_fields(
        verb,
        {field("n_features", args.n_features,
               range::between(1, 2147483647,
                              "Expected number of features; for a LIBSVM file it saves a first pass"))});
}

namespace {

// Rejects flags and --set if other settings make them useless. A file may hold such settings for other runs.
void check_effects(const RunArgs& args, const Assignments& overrides) {
    auto copy = args.config;
    std::set<std::string> chip_names;
    for (const auto& f : fields(copy.chip)) chip_names.insert(f.name);
    std::set<std::string> file_names;
    for (const auto& f : fields(copy.read)) file_names.insert(f.name);
    const auto& features = args.config.features;
    const auto& attention = args.config.attention;
    const auto sampler = attention ? attention->features.sampler : features.sampler;
    const auto is_dataset = [](const auto& assignment) { return assignment.first == "dataset"; };
    const bool sets_dataset =
        std::ranges::any_of(args.given, is_dataset) || std::ranges::any_of(overrides, is_dataset);
    const auto reason = [&](const std::string& name) -> std::string {
        if (chip_names.contains(name) && !args.config.backend.is_chip())
            return "the backend is not a chip (such as --backend hermes)";
        if (name == "gamma" && !kernel_info(features.kernel).uses_gamma)
            return fmt::format("the {} kernel has no width", to_string(features.kernel));
        if (name == "norms" && sampler == Sampler::rff) return "rff draws independent directions";
        if (name == "feature_redraw_interval" && attention->source.sequences == 1)
            return "there is one sequence; Ω is drawn anew between sequences";
        const auto& set = args.config.dataset;
        if (file_names.contains(name) && sets_dataset && (find_set(set) || find_generator(set)))
            return fmt::format("{} is not a file", set);
        return {};
    };
    for (const auto* list : {&overrides, &args.given}) {
        for (const auto& [name, text] : *list) {
            if (const auto why = reason(name); !why.empty())
                fail(ErrorCode::bad_usage, fmt::format("{} has no effect: {}",
                                                       name == "read_seconds" ? "--at" : flag_of(name), why));
        }
    }
}

}  // namespace

Assignments parse_assignments(const std::vector<std::string>& texts, std::string_view what) {
    Assignments list;
    for (const auto& text : texts) {
        const auto assignment = parse_assignment(text, what);
        if (std::ranges::any_of(list, [&](const auto& before) { return before.first == assignment.key; }))
            fail(ErrorCode::bad_usage, fmt::format("{}: duplicate key '{}'", what, assignment.key));
        list.emplace_back(assignment.key, assignment.value);
    }
    return list;
}

void finish_run_args(RunArgs& args) {
    const auto list = fields(args.config);
    if (!args.config_file.empty()) load_yaml(args.config_file, list);
    const auto overrides = parse_assignments(args.overrides, "--set");
    for (const auto& [name, text] : overrides) set_field(list, name, text);
    for (const auto& [name, text] : args.given) set_field(list, name, text);
    validate(args.config);
    check_effects(args, overrides);
}

std::set<std::string> setting_names() {
    std::set<std::string> names;
    for (const auto& [name, text] : default_settings_text()) names.insert(name);
    return names;
}

void refuse_other_settings(const RunArgs& args, const std::set<std::string>& used, std::string_view why) {
    const auto refuse = [&](const std::string& name, const std::string& shown) {
        if (!used.contains(name)) fail(ErrorCode::bad_usage, fmt::format("{} has no effect {}", shown, why));
    };
    for (const auto& [name, text] : args.given) refuse(name, flag_of(name));
    for (const auto& [name, text] : parse_assignments(args.overrides, "--set"))
        refuse(name, fmt::format("--set {}", name));
    const auto file = args.config_file.string();
    for (const auto& [name, text] : changed_settings(settings_text(args.config), default_settings_text())) {
        if (name != "chip_hash") refuse(name, fmt::format("{}: {}", file, name));
    }
}

ReadOptions read_options(const RunArgs& args) {
    auto options = args.config.read;
    options.advise = true;
    options.spool_folder = temporary_folder();
    if (args.n_features > 0) options.features = args.n_features;
    return options;
}

std::string chip_text(const ChipInfo& chip) {
    return fmt::format("on the chip {} ({}, read {:g} s after programming, {} {})", chip.name,
                       to_string(chip.state), chip.seconds, chip.cores, chip.cores == 1 ? "core" : "cores");
}

std::string summary_text(const Summary& s, double factor, std::string_view unit) {
    const double mean = factor * s.mean;
    const int digits = factor == 100.0 ? 2 : 4;
    if (s.n == 1) return fmt::format("{:.{}f}{} (one seed)", mean, digits, unit);
    return fmt::format("{:.{}f} ± {:.{}f}{} ({} seeds; 95 % interval of the mean ± {:.{}f})", mean, digits,
                       factor * s.std, digits, unit, s.n, factor * s.half_width, digits);
}

}  // namespace imka::app

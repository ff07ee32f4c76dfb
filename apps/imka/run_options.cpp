#include "run_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/io/settings.hpp"

namespace imka::app {

std::filesystem::path temporary_folder() {
    const char* folder = std::getenv("TMPDIR");
    return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

void add_feature_options(CLI::App& verb, RunArgs& args) {
    verb.add_option("--config", args.config_file, "YAML file with settings; flags and --set override it")
        ->check(CLI::ExistingFile);
    verb.add_option("--set", args.overrides, "Override one setting, e.g. --set gamma=0.1")
        ->type_name("KEY=VALUE");
    add_field_options(verb, fields(args.config),
                      {"kernel", "gamma", "sampler", "norms", "form", "truncation", "n_components",
                       "log_ratio", "backend", "seeds"},
                      args.given);
    // One seed is a list of one.
    verb.add_option_function<std::string>(
            "--seed", [&args](const std::string& text) { args.given.emplace_back("seeds", text); },
            "A single seed")
        ->type_name("integer")
        ->excludes("--seeds");
}

void add_chip_options(CLI::App& verb, RunArgs& args, ChipUse use) {
    std::vector<std::string> names;
    for (const auto& f : fields(args.config.chip)) {
        if (f.name == "read_seconds") continue;  // --at
        if (use == ChipUse::fit || !f.name.starts_with("fit_")) names.push_back(f.name);
    }
    add_field_options(verb, fields(args.config), names, args.given);
    verb.add_option_function<std::string>(
            "--at,--read-seconds",
            [&args](const std::string& text) {
                args.given.emplace_back("read_seconds", fmt::format("{}", parse_duration(text, "--at")));
            },
            "Time since programming at which the chip is read: 90, 30min, 1h, 7d, 1y")
        ->type_name("TIME")
        ->default_str("0");
    names.emplace_back("at");
    for (auto name : names) {
        std::ranges::replace(name, '_', '-');
        verb.get_option("--" + name)->group("With a chip as backend");
    }
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
    verb.add_option("--n-features", args.n_features,
                    "Number of features of a LIBSVM file (saves a first pass over the file)")
        ->check(CLI::Range(1, 2147483647));
}

void finish_run_args(RunArgs& args) {
    const auto list = fields(args.config);
    if (!args.config_file.empty()) load_yaml(args.config_file, list);
    for (const auto& text : args.overrides) {
        const auto [key, value] = parse_assignment(text, "--set");
        set_field(list, key, value);
    }
    for (const auto& [name, text] : args.given) set_field(list, name, text);
    validate(args.config);
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

// Options shared by the chip commands: chip, weights, inputs, time of the products.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "app.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/analyse/trials.hpp"
#include "imka/chip/build.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka::app {

Json summary_json(const Summary& s);
// "12.3 ± 0.4": mean and half of its 95 % interval, with two significant digits of the interval.
std::string mean_text(const Summary& s, double factor = 1.0);

struct ChipArgs {
    std::string chip = "hermes";       // --backend
    std::string chip_set;              // --chip-set: changed constants, "core.adc_noise=2,core.rows=64"
    std::vector<std::uint64_t> seeds;  // --seeds, --seed
};

// An option whose values are the names of an enumeration.
template <NamedEnum E>
void add_enum_option(CLI::App& verb, const std::string& flag, E& value, const std::string& help) {
    verb.add_option_function<std::string>(
            flag, [&value](const std::string& text) { value = parse_enum<E>(text); }, help)
        ->type_name(join_names(EnumNames<E>::values, "|"))
        ->default_str(std::string(to_string(value)));
}

// --backend, --chip-set.
void add_chip_options(CLI::App& verb, ChipArgs& args);
// The same below `imka chip`, where their former names --chip and --set still work.
void add_own_chip_options(CLI::App& verb, ChipArgs& args);
// --seeds and --seed; the current value of `seeds` is the default.
void add_seed_options(CLI::App& verb, ChipArgs& args);
// A preset by name or a YAML file by path, with the changed constants.
ChipSpec load_spec(const ChipArgs& args);

// Weights and inputs: drawn with a seed, or read from files.
struct ProblemArgs {
    std::string weights = "gauss";  // law or file
    std::string inputs = "gauss";   // law or file
    ProblemConfig config;           // its laws are set by make_trials
    InputRangeRule input_range = InputRangeRule::max;
    const CLI::App* verb = nullptr;  // to check which options were given
};
void add_problem_options(CLI::App& verb, ProblemArgs& args);
// "Gaussian weights truncated at 3 standard deviations, uniform inputs, input range by max"
std::string problem_text(const ProblemArgs& args, const ChipTrials& trials);

// The chips to analyse.
struct TrialArgs {
    ChipArgs chip{.seeds = {0, 1, 2, 3, 4}};
    ProblemArgs problem;
    ChipBuild build;             // its settings are set by make_trials
    std::filesystem::path load;  // --load: a programmed chip
};
// --programming.
void add_programming_option(CLI::App& verb, ChipBuild& build);
// --load FILE; excludes the options that build a chip.
void add_load_option(CLI::App& verb, std::filesystem::path& file);
// --at and --read-spacing: when products are read.
struct TimeArgs {
    std::string at = "0";
    std::string spacing = "0.001";
};
void add_time_options(CLI::App& verb, TimeArgs& args);
void add_spacing_option(CLI::App& verb, TimeArgs& args);  // only --read-spacing
ReadTime read_time(const TimeArgs& args);
// How a model is put on a chip: --input-range, --programming, ..., --compensation and --at.
void add_build_options(CLI::App& verb, BuildConfig& build);

// Calls body; prefixes the message of an Error{bad_data} with the file name.
template <class Body>
auto with_file_name(const std::filesystem::path& file, Body&& body) {
    try {
        return body();
    } catch (const Error& e) {
        if (e.code() != ErrorCode::bad_data) throw;
        fail(e.code(), file.string() + ": " + e.what());
    }
}

// Reads the files given by the options. Error{bad_usage} for an option without effect.
ChipTrials make_trials(const TrialArgs& args);
ChipSettings make_settings(const ChipSpec& spec, const ProblemArgs& args);

// --figure.
void add_figure_option(CLI::App& verb, std::filesystem::path& file,
                       const std::string& help = "Draw the result");
void print_figure_note(const std::filesystem::path& file);

// The chip, its hash, and the size of the matrix.
Json chip_json(const ChipTrials& trials);

// "5 seeds"
std::string seeds_text(const ChipTrials& trials);

// "hermes, 256 x 256 on 1 core of 64"
std::string chip_line(const ChipSpec& spec, std::size_t rows, std::size_t cols);
std::string chip_line(const ChipTrials& trials);

// The verbs of imka chip, one file per verb.

void add_chip_info(CLI::App& chip, Context& context);
void add_chip_mvm(CLI::App& chip, Context& context);
void add_chip_program(CLI::App& chip, Context& context);
void add_chip_age(CLI::App& chip, Context& context);
void add_chip_explain(CLI::App& chip, Context& context);
void add_chip_fit(CLI::App& chip, Context& context);
void add_chip_signatures(CLI::App& chip, Context& context);

}  // namespace imka::app

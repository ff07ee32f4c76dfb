// Options shared by the verbs on data: settings of the run, input file.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/data/dataset.hpp"
#include "imka/data/row_reader.hpp"
#include "imka/experiment/run.hpp"

namespace imka::app {

struct RunArgs {
    RunConfig config;
    std::filesystem::path config_file;   // --config
    std::vector<std::string> overrides;  // --set key=value
    Assignments given;                   // settings given by their own flags
    std::uint32_t n_features = 0;        // --n-features; 0 = not given
    std::int64_t chip_draws = 0;         // --chip-draws; 0 = not given
};

// --config, --set. A flag overrides --set, which overrides the file.
void add_config_options(CLI::App& verb, RunArgs& args);
// --seed, for a verb with --seeds.
void add_seed_option(CLI::App& verb, RunArgs& args);
// All options above, and --kernel, --gamma, ... --seeds.
void add_feature_options(CLI::App& verb, RunArgs& args);
// --chip-seed, --at, ...: options for a chip as backend. `fit`: the verb fits weights.
enum class ChipUse { project, fit };
void add_chip_options(CLI::App& verb, RunArgs& args, ChipUse use);
// --chip-draws, for a verb with results over seeds.
void add_draws_option(CLI::App& verb, RunArgs& args);
// Adds the spread over the draws to the result, if requested.
void add_unknowns(std::string_view kind, const RunArgs& args, const RunSource& data, const Exec& exec,
                  RunResult& result);
// "chip constants   Gram error ± 0.0021, accuracy ± 0.05 % (20 draws of their posterior)\n"; empty without
// draws.
std::string unknowns_text(const RunResult& result);
// --dataset, --protocol, --split-seed, --gram-rows.
void add_dataset_options(CLI::App& verb, RunArgs& args);
// --format, --label-column, --header, --drop-columns, --missing for a file.
void add_file_options(CLI::App& verb, RunArgs& args);
// --n-features for an input file that is read row by row.
void add_input_options(CLI::App& verb, RunArgs& args);
// Applies file and overrides, and checks everything that can be checked before work starts, including that
// each setting given on the command line has an effect.
void finish_run_args(RunArgs& args);

// KEY=VALUE texts of a repeatable option; a key given twice is an error.
Assignments parse_assignments(const std::vector<std::string>& texts, std::string_view what);

// Error{bad_usage} with the name of the first given setting (flag, --set or settings file) that is not in
// `used`. `why`: "with --load".
void refuse_other_settings(const RunArgs& args, const std::set<std::string>& used, std::string_view why);
// Names of all settings of a run.
std::set<std::string> setting_names();

ReadOptions read_options(const RunArgs& args);
// TMPDIR, else /tmp.
std::filesystem::path temporary_folder();

// "on the chip hermes (compensated, read 3600 s after programming, 3 cores)"
std::string chip_text(const ChipInfo& chip);

// "96.91 ± 0.12 (95 % CI of the mean ± 0.15, 5 seeds)"
std::string summary_text(const Summary& s, double factor, std::string_view unit);

}  // namespace imka::app

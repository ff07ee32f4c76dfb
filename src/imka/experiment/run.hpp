// One run: settings, data set and seeds in, results out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/data/dataset.hpp"
#include "imka/experiment/backend.hpp"
#include "imka/features/config.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/metrics/summary.hpp"

namespace imka {

struct RunConfig {
    std::string dataset = "ringnorm";  // registered set, generator, file, or TRAIN:TEST files
    std::optional<Format> format;      // of a file; by its name when absent
    std::string label_column;          // of a file; the format's own when empty
    Protocol protocol = Protocol::default_;
    FeatureConfig features;
    RidgeConfig ridge;
    BackendSetting backend;
    ChipRun chip;  // where the backend is one
    std::uint64_t split_seed = 0;
    std::int64_t gram_rows = 1000;  // rows of the test part in the Gram error; 0 = none
    std::vector<std::uint64_t> seeds = {0};
};

Fields fields(RunConfig& config);
// Those that this run depends on: without the settings of a chip where there is none.
Fields used_fields(RunConfig& config);
// Sets chip_hash, so that a run is named after the constants of its chip. Nothing for fp32.
void pin_chip(RunConfig& config);
// Everything that can be wrong before the data are seen.
void validate(const RunConfig& config);

// Settings as text that a setting reads back, by name.
using SettingsText = std::map<std::string, std::string>;
// Those that the run depends on, with chip_hash.
SettingsText settings_text(const RunConfig& config);
// The defaults of all settings, those of a chip included.
const SettingsText& default_settings_text();
// Those that differ from their defaults: what names a run, so that a setting added later changes no name.
SettingsText changed_settings(const SettingsText& settings, const SettingsText& defaults);

// SHA-256 of the changed settings.
std::string config_hash(const RunConfig& config);

// How the settings say that the data are loaded.
LoadOptions load_options(const RunConfig& config, const std::filesystem::path& data_dir);

FeatureUse feature_use(const RunConfig& config);
FeatureSizes run_sizes(const RunConfig& config, std::int64_t d);
FeatureRecipe feature_recipe(const RunConfig& config, const Dataset& data, std::uint64_t seed);

// z of the rows that are tested: of the recipe, or on the seed's own chip, calibrated on the training part.
struct RunMap {
    FeatureMap map;
    std::optional<ChipInfo> chip;
    std::uint64_t seed = 0;  // of the products of rows that are tested
};
RunMap run_map(const RunConfig& config, const Dataset& data, std::uint64_t seed, const Exec& exec);
// The model of one seed, fitted where fit_on says. `on_chip` is the map of run_map, which `fit_on: chip`
// uses; nullptr where the backend is not a chip.
RidgeModel fit_run(const RunConfig& config, const Dataset& data, std::uint64_t seed,
                   const FeatureMap* on_chip, const Exec& exec);
// The exact Gram matrix that runs on one data set share.
Matrix<double> reference_gram(const RunConfig& config, const Dataset& data, const Exec& exec);
double measure_gram_error(const RunConfig& config, const Dataset& data, const Matrix<double>& exact,
                          const SeededMap& map, const Exec& exec);

struct RunResult {
    FeatureSizes sizes;
    std::optional<double> gamma;            // none for kernels without it
    std::map<std::string, Summary> values;  // by name, over the seeds: accuracy, gram_error
    std::optional<ChipInfo> chip;           // of the first seed
    std::optional<RidgeModel> model;        // of the first seed; none after a run without a fit
};
// One result per seed, of a kind of run (experiment/kinds.hpp): "ridge", "gram".
RunResult run_seeds(std::string_view kind, const RunConfig& config, const Dataset& data, const Exec& exec);

// The public form of a result (JSON text).
std::string to_json(const RunConfig& config, const RunResult& result);

}  // namespace imka

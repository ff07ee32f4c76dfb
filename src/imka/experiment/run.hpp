// One run: settings, data set and seeds in, results out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/trace.hpp"
#include "imka/data/dataset.hpp"
#include "imka/experiment/attention_data.hpp"
#include "imka/experiment/backend.hpp"
#include "imka/experiment/performer_data.hpp"
#include "imka/features/config.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/metrics/metrics.hpp"
#include "imka/train/evaluate.hpp"

namespace imka {

// Settings of runs of attention. Ω is drawn anew after feature_redraw_interval sequences.
struct AttentionRun {
    AttentionConfig features;
    AttentionSource source;                   // dataset and seed are those of the run
    std::optional<std::int64_t> matrix_rows;  // in matrix_error; 0: none; auto: all, up to a length of 4096
    bool published_slips = false;             // as in the published figure (docs/attention.md)
};

// Settings of tests of trained Performers.
struct PerformerRun {
    PerformerSource source;  // the task is the dataset of the run
    EvalMode mode = EvalMode::fp32;
    bool saved_omega = false;  // the Ω of the checkpoint instead of one per seed
    OmegaLaw omega_law = OmegaLaw::gaussian;
    std::optional<std::string> origin;  // of the examples; set when a sweep is planned
};

struct RunConfig {
    std::string dataset = "ringnorm";  // registered set, generator, file, or TRAIN:TEST files
    ReadOptions read;                  // of a file
    Protocol protocol = Protocol::default_;
    Task task = Task::classification;
    FeatureConfig features;
    RidgeConfig ridge;
    BackendSetting backend;
    ChipRun chip;  // used if the backend is a chip
    std::uint64_t split_seed = 0;
    std::int64_t gram_rows = 1000;  // test rows in the Gram error; 0 = none
    std::vector<std::uint64_t> seeds = {0};
    // Runs of attention only. They have no settings for data files, feature maps, fits and Gram errors.
    std::optional<AttentionRun> attention = {};
    // The same for tests of Performers.
    std::optional<PerformerRun> performer = {};

    // Whether any product of the run is computed on a chip.
    bool uses_chip() const { return performer ? performer->mode != EvalMode::fp32 : backend.is_chip(); }
};

// The default settings of runs of attention.
RunConfig attention_defaults();
// The same for tests of Performers; the backend is the chip of the modes that need one.
RunConfig performer_defaults();
// The inputs that the settings of a run of attention describe.
AttentionSource attention_source(const RunConfig& config);
PerformerSource performer_source(const RunConfig& config);

Fields fields(RunConfig& config);
// Settings that affect this run: without the chip settings if no chip is used.
Fields used_fields(RunConfig& config);
// Sets chip_hash, so that the constants of the chip are part of the run's key. No effect for fp32.
void pin_chip(RunConfig& config);
// Checks everything that does not depend on the data.
void validate(const RunConfig& config);

// Settings by name, as text that they parse.
using SettingsText = std::map<std::string, std::string>;
// Settings that affect the run, with chip_hash.
SettingsText settings_text(const RunConfig& config);
// Defaults of all settings of a kind of run, including the chip settings.
const SettingsText& default_settings_text(std::string_view kind = "ridge");
// Settings that differ from their defaults. They identify a run, so that adding a setting changes no key.
SettingsText changed_settings(const SettingsText& settings, const SettingsText& defaults);

// SHA-256 of the changed settings.
std::string config_hash(const RunConfig& config);

// Options for loading the data.
LoadOptions load_options(const RunConfig& config, const std::filesystem::path& data_dir);

FeatureUse feature_use(const RunConfig& config);
FeatureSizes run_sizes(const RunConfig& config, std::int64_t d);
FeatureRecipe feature_recipe(const RunConfig& config, const Dataset& data, std::uint64_t seed);

// z of the test rows: from the recipe, or on the chip of the seed, calibrated on the training part.
struct RunMap {
    FeatureMap map;
    std::optional<ChipInfo> chip;
    std::uint64_t seed = 0;  // of the products of test rows
};
RunMap run_map(const RunConfig& config, const Dataset& data, std::uint64_t seed, const Exec& exec);
// The same Ω on the second chip of gram_copies; none if there is only one.
std::optional<RunMap> copy_map(const RunConfig& config, const Dataset& data, std::uint64_t seed,
                               const Exec& exec);
// The model of one seed, fitted to the features that fit_on selects. `on_chip` is the map from run_map, used
// by `fit_on: chip`; nullptr if the backend is not a chip.
RidgeModel fit_run(const RunConfig& config, const Dataset& data, std::uint64_t seed,
                   const FeatureMap* on_chip, const Exec& exec);
// The exact Gram matrix, shared by the runs on one data set.
Matrix<double> reference_gram(const RunConfig& config, const Dataset& data, const Exec& exec);
// The test rows of Gram errors.
MatrixView<const float> gram_rows(const RunConfig& config, const Dataset& data);
// From one map, or from two on independent chips (gram_copies).
double measure_gram_error(const RunConfig& config, const Dataset& data, const Matrix<double>& exact,
                          std::span<const SeededMap> maps, const Exec& exec);

// Uncertainty about the chip: spread of the results over draws of its constants from the posterior of their
// fit.
struct ChipUnknowns {
    std::int64_t draws = 0;
    std::map<std::string, double> deviations;  // by name: standard deviation of the mean over the seeds
};

// Where the arithmetic operations of a run of attention took place (docs/attention.md).
struct Offload {
    double chip = 0.0;     // operations of the projections
    double digital = 0.0;  // of features, sums over keys and outputs
    Trace trace;           // counts of the chip
    double share() const { return chip / (chip + digital); }
};

// Inputs of a run: a data set; queries, keys and values; or a model and its examples. Refers to values of the
// caller.
struct RunSource {
    RunSource(const Dataset& data) : set(&data) {}
    RunSource(const AttentionData& data) : attention(&data) {}
    RunSource(const PerformerData& data) : performer(&data) {}
    const Dataset* set = nullptr;
    const AttentionData* attention = nullptr;
    const PerformerData* performer = nullptr;
};

struct RunResult {
    FeatureSizes sizes;
    std::optional<double> gamma;            // absent if the kernel has none
    std::map<std::string, Summary> values;  // by name, over the seeds (RunKind::results)
    std::optional<ChipInfo> chip;           // of the first seed
    std::optional<RidgeModel> model;        // of the first seed; absent if the run fits none
    std::optional<ChipUnknowns> unknowns;   // if requested
    std::optional<Offload> offload;         // attention on a chip, of the first seed
};
// Runs every seed. `kind` is a name of experiment/kinds.hpp.
RunResult run_seeds(std::string_view kind, const RunConfig& config, const RunSource& data, const Exec& exec);
// Runs every seed on the first `draws` draws of the chip's posterior, at least 2.
ChipUnknowns run_draws(std::string_view kind, const RunConfig& config, const RunSource& data,
                       std::int64_t draws, const Exec& exec);

// The result as JSON text.
std::string to_json(const RunConfig& config, const RunResult& result);

}  // namespace imka

// One experiment on one data set: kernel, sampler and size, over several seeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/data/dataset.hpp"
#include "imka/experiment/backend.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/metrics/summary.hpp"

namespace imka {

// A number, or scikit-learn's `scale`: 1 / (d × variance of the training inputs).
struct GammaSetting {
    std::optional<double> value = 0.05;  // absent: scale
};
template <>
struct Codec<GammaSetting> {
    static std::string type() { return "number|scale"; }
    static GammaSetting parse(std::string_view text, std::string_view name);
    static std::string json(const GammaSetting& g);
    static void check(const GammaSetting& g, const FieldInfo& info, std::string_view name);
};

struct RunConfig {
    std::string dataset = "ringnorm";  // registered set, generator, file, or TRAIN:TEST files
    std::optional<Format> format;      // of a file; by its name when absent
    std::string label_column;          // of a file; the format's own when empty
    Protocol protocol = Protocol::default_;
    Kernel kernel = Kernel::rbf;
    GammaSetting gamma;
    Sampler sampler = Sampler::orf;
    Norms norms = Norms::auto_;
    Form form = Form::auto_;
    std::optional<double> truncation;  // standard deviations; 0 = off; auto: 3 when measured or on a chip
    std::optional<std::int64_t> n_components;  // D
    std::optional<double> log_ratio;           // r = log2(m / d); 4 when neither is given
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
// Writes down what the chip of a run is, so that its hash is part of the run: chip_hash. Nothing for fp32.
void pin_chip(RunConfig& config);
// Everything that can be wrong before the data are seen.
void validate(const RunConfig& config);
// SHA-256 of everything that determines the result.
std::string config_hash(const RunConfig& config);

struct RunSizes {
    std::int64_t d = 0;
    std::int64_t m = 0;         // directions
    std::int64_t features = 0;  // D
    double log_ratio = 0.0;     // as asked, or log2(m / d)
};
// Error{bad_config} when D = 0 or D is not a multiple of the functions a direction has.
RunSizes run_sizes(const RunConfig& config, std::int64_t d);

// How the settings say that the data are loaded.
LoadOptions load_options(const RunConfig& config, const std::filesystem::path& data_dir);

double resolve_gamma(const RunConfig& config, const Dataset& data);
// As asked, or what auto stands for.
double resolve_truncation(const RunConfig& config);
FeatureRecipe feature_recipe(const RunConfig& config, const Dataset& data, std::uint64_t seed);
RidgeFit ridge_fit(const RunConfig& config, const Dataset& data, std::uint64_t seed);

// z of the rows that are tested: of the recipe, or on the seed's own chip, calibrated on the training part.
struct RunMap {
    FeatureMap map;
    std::optional<ChipInfo> chip;
};
RunMap run_map(const RunConfig& config, const Dataset& data, std::uint64_t seed, const Exec& exec);
// The model of one seed, fitted where fit_on says.
RidgeModel fit_run(const RunConfig& config, const Dataset& data, std::uint64_t seed, const Exec& exec);

// The exact Gram matrix that runs on one data set share.
Matrix<double> reference_gram(const RunConfig& config, const Dataset& data, const Exec& exec);

// Gram error of one seed; `exact` from reference_gram.
double measure_gram_error(const RunConfig& config, const Dataset& data, const Matrix<double>& exact,
                          std::uint64_t seed, const Exec& exec);
// The same with a map that is there already.
double measure_gram_error(const RunConfig& config, const Dataset& data, const Matrix<double>& exact,
                          const FeatureMap& map, const Exec& exec);
// Test accuracy of a model.
double measure_accuracy(const RidgeModel& model, const Dataset& data, const Exec& exec);
double measure_accuracy(const RidgePredictor& predictor, const Dataset& data, const Exec& exec);

struct RunResult {
    RunSizes sizes;
    std::optional<double> gamma;  // none for kernels without it
    std::optional<Summary> accuracy;
    std::optional<Summary> gram_error;
    std::optional<ChipInfo> chip;  // of the first seed
    RidgeModel model;              // of the first seed; empty after a run without a fit
};

RunResult run_ridge(const RunConfig& config, const Dataset& data, const Exec& exec);
RunResult run_gram(const RunConfig& config, const Dataset& data, const Exec& exec);

// The public form of a result (JSON text).
std::string to_json(const RunConfig& config, const RunResult& result);

}  // namespace imka

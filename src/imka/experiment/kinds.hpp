// The kinds of run that sweeps, records and the command line support. One row per kind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "imka/attention/gpu_attention.hpp"
#include "imka/cuda/resident.hpp"
#include "imka/experiment/cost.hpp"
#include "imka/experiment/run.hpp"
#include "imka/metrics/gram_gpu.hpp"

namespace imka {

// Inputs of runs, and values that the runs share. Thread-safe.
class RunData {
public:
    explicit RunData(const RunSource& source) : source_(source) {}
    const RunSource& source() const { return source_; }
    const Dataset& set() const { return *source_.set; }
    // Computed by the first run that needs it; the others wait.
    const Matrix<double>& exact_gram(const RunConfig& config, const Exec& exec);
    // The same in memory of exec.device, a GPU.
    const GpuGramError& gram_on_gpu(const RunConfig& config, const Exec& exec);
    // Training and test rows in memory of exec.device, copied by the first run that needs them. nullptr on
    // the processor, or if they would take much of the GPU's memory.
    const cuda::ResidentRows* rows_on_gpu(const Exec& exec);
    // Exact attention (exact_outputs), shared in the same way.
    const std::vector<Matrix<float>>& exact_attention(const RunConfig& config, const Exec& exec);
    // The sequences in memory of exec.device, a GPU.
    const std::vector<GpuSequence>& attention_on_gpu(const RunConfig& config, const Exec& exec);

    // Results of one run of a group. The first run of the group computes the results of all its runs, by
    // name; the others wait and take theirs.
    using Results = std::map<std::string, double>;
    Results take_results(const std::string& group, const std::string& run,
                         const std::function<std::map<std::string, Results>()>& compute);

private:
    using GramKey = std::tuple<Kernel, double, std::int64_t>;
    static GramKey key_of(const RunConfig& config);
    RunSource source_;
    std::mutex mutex_;
    std::map<GramKey, Matrix<double>> grams_;
    std::map<GramKey, GpuGramError> grams_on_gpu_;
    std::once_flag rows_asked_;
    std::optional<cuda::ResidentRows> rows_;
    std::vector<Matrix<float>> attention_;
    std::vector<GpuSequence> attention_on_gpu_;
    struct Group {
        std::mutex mutex;
        std::map<std::string, Results> results;  // not yet taken
    };
    std::map<std::string, Group> groups_;
};

// Seconds on the calling thread.
struct RunTimes {
    double chip = 0.0;      // calibrating and programming chips
    double features = 0.0;  // z(x) of training and test rows
    double products = 0.0;  // ZᵀZ and Zᵀy
    double solve = 0.0;
    double predict = 0.0;  // without the features
    double gram = 0.0;     // exact Gram matrices, exact attention, errors
};

struct SeedResult {
    std::map<std::string, double> values;  // by name
    RunTimes times = {};
    std::optional<ChipInfo> chip = {};
    std::optional<RidgeModel> model = {};
    std::optional<Offload> offload = {};
};

// The loaded inputs of a run.
using RunInputs = std::variant<Dataset, AttentionData, PerformerData>;
RunSource source_of(const RunInputs& inputs);

struct RunSizes {
    FeatureSizes sizes;
    std::optional<double> gamma = {};  // absent if the kernel has none
};

// The common part of kinds with the same settings and inputs.
struct RunFamily {
    RunConfig (*defaults)();
    // Settings of every run, and those that only runs on a chip use.
    Fields (*fields)(RunConfig&);
    Fields (*chip_fields)(RunConfig&);
    // Settings that determine the inputs, with data set, protocol, task and split seed.
    Fields (*input_fields)(RunConfig&);
    // Error{bad_config}: everything that does not depend on the data.
    void (*validate)(const RunConfig&);
    DatasetFacts (*facts)(const RunConfig&, const std::filesystem::path& data_dir, const Exec&);
    RunInputs (*load)(const RunConfig&, const std::filesystem::path& data_dir, const Exec&);
    DatasetFacts (*facts_of)(const RunSource&);  // of loaded inputs
    // Error{bad_config} if the settings do not fit the inputs.
    RunSizes (*sizes)(const RunConfig&, const RunSource&);
    std::string_view place = {};  // setting with the location of the inputs, which their content identifies
};
// The family of these settings: attention or Performers if that part is set, otherwise data sets.
const RunFamily& run_family(const RunConfig& config);

// How the command line runs one setting.
struct RunVerb {
    std::string_view name;
    // Settings that are not flags of the verb: they have no effect, or `words` contains them.
    std::span<const std::string_view> no_flags = {};
    // Words before the flags. nullptr: none.
    std::vector<std::string> (*words)(const SettingsText&) = nullptr;
};

struct RunKind {
    std::string_view name;
    std::string_view help;
    RunFamily family;
    RunVerb verb;
    std::span<const std::string_view> results;  // names of the values; some are optional
    // Error{bad_config} if this kind cannot run with the settings.
    void (*check)(const RunConfig&);
    SeedResult (*run)(const RunConfig&, std::uint64_t seed, RunData&, const Exec&);
    RunCost (*cost)(const RunConfig&, const DatasetFacts&);
    bool measures_time = false;  // runs alone; its results differ from run to run
    bool shares_gpu = false;     // runs use a GPU at the same time or in turns (cuda::turns)
    bool may_be_short = false;   // progress counts seeds
    // Sweeps leave out runs whose inputs are missing (Error{missing_part} of `facts`).
    bool may_lack_inputs = false;
    bool tests_models = false;  // reports show its results by task and checkpoint, not by Ω
};
std::span<const RunKind> run_kinds();
// nullptr if unknown.
const RunKind* find_run_kind(std::string_view name);
std::string run_kind_names();  // "ridge, gram, ..."
// Error{bad_config} listing the known kinds if unknown.
const RunKind& run_kind(std::string_view name);
// The kind of a record; the first one if it is unknown.
const RunKind& recorded_kind(std::string_view name);

}  // namespace imka

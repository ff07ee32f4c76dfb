// The kinds of run that sweeps, records and the command line support. One row per kind.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "imka/experiment/cost.hpp"
#include "imka/experiment/run.hpp"

namespace imka {

// A data set and values shared by its runs. Thread-safe.
class RunData {
public:
    explicit RunData(const Dataset& set) : set_(set) {}
    const Dataset& set() const { return set_; }
    // Computed by the first run that needs it; the others wait.
    const Matrix<double>& exact_gram(const RunConfig& config, const Exec& exec);

private:
    using GramKey = std::tuple<Kernel, double, std::int64_t>;
    const Dataset& set_;
    std::mutex mutex_;
    std::map<GramKey, Matrix<double>> grams_;
};

// Seconds on the calling thread.
struct RunTimes {
    double chip = 0.0;      // calibrating and programming chips
    double features = 0.0;  // z(x) of training and test rows
    double products = 0.0;  // ZᵀZ and Zᵀy
    double solve = 0.0;
    double predict = 0.0;  // without the features
    double gram = 0.0;     // exact Gram matrices and errors
};

struct SeedResult {
    std::map<std::string, double> values;  // by name
    RunTimes times = {};
    std::optional<ChipInfo> chip = {};
    std::optional<RidgeModel> model = {};
};

struct RunKind {
    std::string_view name;
    std::string_view help;
    std::span<const std::string_view> results;  // names of the values; some are optional
    // Error{bad_config} if this kind cannot run with the settings.
    void (*check)(const RunConfig&);
    SeedResult (*run)(const RunConfig&, std::uint64_t seed, RunData&, const Exec&);
    RunCost (*cost)(const RunConfig&, const DatasetFacts&);
};
std::span<const RunKind> run_kinds();
// nullptr if unknown.
const RunKind* find_run_kind(std::string_view name);
std::string run_kind_names();  // "ridge, gram"
// Error{bad_config} listing the known kinds if unknown.
const RunKind& run_kind(std::string_view name);

}  // namespace imka

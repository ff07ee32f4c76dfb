// Experiment files: fixed settings, a grid of settings, a list of cases; strict keys (docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "imka/experiment/run.hpp"

namespace imka {

// One setting as written, and its position: "smoke.yaml: line 7".
struct SettingText {
    std::string name;
    std::string value;
    std::string place;
};
// One setting of the grid. Every value is combined with every value of the other axes.
struct Axis {
    std::string name;
    std::vector<std::string> values;
    std::string place;
};

struct Experiment {
    std::string name;  // also the name of its folder: lower-case letters, digits, '_' and '-'
    std::string title;
    std::string description;
    std::string kind = "ridge";  // kind of run (experiment/kinds.hpp)
    std::string place;           // the file
    std::vector<SettingText> base;
    std::vector<Axis> grid;
    std::vector<std::vector<SettingText>> cases;  // each is combined with the whole grid
};

// More runs than this are an error: most likely a mistake in the grid.
inline constexpr std::uint64_t kMostRuns = 1'000'000;

// Error{bad_config} with the line and the expected value.
Experiment parse_experiment(std::string_view text, const std::string& where);
Experiment read_experiment(const std::filesystem::path& path);
// The experiment as YAML text; parsing it gives the same experiment.
std::string to_yaml(const Experiment& experiment);

// Number of runs, one per seed, without creating them. Error{bad_config} above kMostRuns.
std::uint64_t count_runs(const Experiment& experiment);

// Replaces a setting in base, grid and cases by `text`, a value or a list "[a, b]".
void override_setting(Experiment& experiment, const std::string& name, const std::string& text);

// One combination of cases and grid: settings with all their seeds.
struct RunPoint {
    RunConfig config;
    bool split_by_seed = false;  // `split_seed: seed`: each seed draws its own random split
    std::string label;           // "dataset=letter, kernel=rbf"
};
// All combinations, validated: Error{bad_config} names the invalid one. Cases come first, then the grid in
// file order; the last axis varies fastest.
std::vector<RunPoint> expand(const Experiment& experiment);

// The settings of one run.
RunConfig run_config(const RunPoint& point, std::uint64_t seed);

// The built-in experiments.
struct KnownExperiment {
    std::string_view name;
    std::string_view text;
};
std::span<const KnownExperiment> known_experiments();
// A built-in experiment or a file; Error{bad_usage} listing the names if it is neither.
Experiment find_experiment(const std::string& name_or_path);

}  // namespace imka

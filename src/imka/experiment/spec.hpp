// Experiment files: settings that stay, a grid of settings, a list of cases; strict keys (docs/formats.md).
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

// One setting as it was written, and where: "smoke.yaml: line 7".
struct SettingText {
    std::string name;
    std::string value;
    std::string place;
};
// One setting of the grid; every value is combined with every value of the others.
struct Axis {
    std::string name;
    std::vector<std::string> values;
    std::string place;
};

struct Experiment {
    std::string name;  // also that of its folder: lower-case letters, digits, '_' and '-'
    std::string title;
    std::string description;
    std::string kind = "ridge";  // what is run (experiment/kinds.hpp)
    std::string place;           // the file
    std::vector<SettingText> base;
    std::vector<Axis> grid;
    std::vector<std::vector<SettingText>> cases;  // each is combined with the whole grid
};

// More runs than this are an error: a mistake in a grid, not a plan.
inline constexpr std::uint64_t kMostRuns = 1'000'000;

// Error{bad_config} that names the place and what would be right.
Experiment parse_experiment(std::string_view text, const std::string& where);
Experiment read_experiment(const std::filesystem::path& path);
// The text of an experiment; reads back as the same.
std::string to_yaml(const Experiment& experiment);

// How many runs it asks for, one a seed, without making them. Error{bad_config} above kMostRuns.
std::uint64_t count_runs(const Experiment& experiment);

// Puts `text` (or a list "[a, b]") in the place of what base, grid and cases say about a setting.
void override_setting(Experiment& experiment, const std::string& name, const std::string& text);

// One combination of cases and grid: settings with all their seeds.
struct RunPoint {
    RunConfig config;
    bool split_by_seed = false;  // `split_seed: seed`: each seed draws its own random split
    std::string label;           // "dataset=letter, kernel=rbf"
};
// All of them, each validated: Error{bad_config} that names the combination. Cases come first, then the grid
// in the order of the file, the last axis running fastest.
std::vector<RunPoint> expand(const Experiment& experiment);

// The settings of one run.
RunConfig run_config(const RunPoint& point, std::uint64_t seed);

// The experiments that are compiled in.
struct KnownExperiment {
    std::string_view name;
    std::string_view text;
};
std::span<const KnownExperiment> known_experiments();
// A known name, else a file; Error{bad_usage} that lists the names where it is neither.
Experiment find_experiment(const std::string& name_or_path);

}  // namespace imka

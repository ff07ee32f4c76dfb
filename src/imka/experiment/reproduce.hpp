// The sweep of a reproduction: a built-in experiment with the changes of a user, and the runs that are
// finished in other folders.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "imka/experiment/sweep.hpp"

namespace imka {

struct ReproduceConfig {
    std::filesystem::path output;  // folder with one folder per reproduction
    std::filesystem::path data_dir;
    std::string models;                                             // models_folder
    std::string seeds;                                              // empty: those of the experiments
    std::vector<std::string> datasets;                              // is_chosen
    std::vector<std::pair<std::string, std::string>> changes = {};  // settings and their values
};

// If no data set is named, all are chosen.
bool is_chosen(const std::vector<std::string>& datasets, const std::string& name);
std::filesystem::path models_folder(const std::string& models);  // if empty: that of the experiments

// Plans the experiment `name`. Its data set is the queries, keys and values of the checkpoint `qkv_of`, which
// are computed if their file is missing; if `qkv_of` is empty, the experiment names its data set. If the
// checkpoint or its data are missing, the plan has no runs and a message in `missing`.
SweepPlan plan_reproduction(const std::string& name, const std::string& qkv_of, const ReproduceConfig& config,
                            const Exec& exec);

// Copies the runs of the plan that are finished in other folders.
void adopt_runs(const SweepPlan& plan, const std::vector<std::filesystem::path>& others,
                const std::filesystem::path& folder);

}  // namespace imka

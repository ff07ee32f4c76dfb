// Learning curves of training runs, from their logs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "imka/report/plot.hpp"
#include "imka/train/progress.hpp"

namespace imka::report {

struct TrainingLog {
    std::string name;  // of the file, or of the folder of a log.jsonl
    std::vector<TrainingEvent> events;
};
// The logs in a folder: its files *.jsonl, and the log.jsonl of its sub-folders. Sorted by name.
// Error{bad_data} if there are none.
std::vector<TrainingLog> read_training_logs(const std::filesystem::path& folder);

// Loss and accuracy against steps, two plots per log. Training is shown as means over at most 200 intervals,
// tests only if the log has them.
std::vector<Plot> learning_curves(const std::vector<TrainingLog>& logs);

}  // namespace imka::report

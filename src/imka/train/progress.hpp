// Progress of a training run, and the files in its folder:
//   recipe.yaml        all settings
//   best.safetensors   the model with the best validation
//   last.safetensors   the newest model, with the state of the optimiser while the training is unfinished
//   log.jsonl          one JSON object per line: losses, validations
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "imka/train/performer.hpp"
#include "imka/train/recipe.hpp"

namespace imka {

struct TrainingProgress {
    std::int64_t step = 0;        // steps done
    double best_accuracy = -1.0;  // of a validation; -1: none yet
    std::int64_t best_step = 0;
    std::int64_t since_best = 0;  // validations since then
    double seconds = 0.0;         // of training, over all runs
    bool finished = false;
};
// The metadata `training` of a checkpoint: progress and recipe.
std::string training_json(const TrainingProgress& progress, const TrainRecipe& recipe,
                          const std::string& device);
TrainingProgress progress_of(const Performer& model);
// Error{bad_config} naming the first setting that differs from those of the checkpoint. The number of steps,
// validation and patience may differ.
void check_same_recipe(const Performer& model, const TrainRecipe& recipe);

std::string recipe_yaml(const TrainRecipe& recipe);

// One line of the log.
struct TrainingEvent {
    std::string kind;  // "train", "valid", "test" (new directions), "test_poisson" (Poisson directions)
    std::int64_t step = 0;
    double loss = 0.0;
    double accuracy = 0.0;
    double lr = 0.0;
    double tokens_per_second = 0.0;
    double seconds = 0.0;
};
std::string event_json(const TrainingEvent& event);
// All events of a log. Error{bad_data} with the number of an invalid line; ignores an incomplete last line.
std::vector<TrainingEvent> read_training_log(const std::filesystem::path& path);
// Lines of a log up to this step: a training run that resumes repeats the later ones.
std::string log_until(const std::filesystem::path& path, std::int64_t step);

}  // namespace imka

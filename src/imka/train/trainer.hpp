// Trains Performers. Built with LibTorch (train/torch/); other builds have no definition of `train`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "imka/base/exec.hpp"
#include "imka/data/lra/task.hpp"
#include "imka/train/progress.hpp"
#include "imka/train/recipe.hpp"

namespace imka {

struct TrainOptions {
    std::filesystem::path output;  // folder; a training run in it is resumed
    std::filesystem::path from;    // start from this model instead of random weights; empty: random
    LraSource source;              // of the examples
    double minutes = 0.0;          // stop at a checkpoint after this time; 0: no limit
    std::function<void(const TrainingEvent&)> on_event = {};
};

struct TrainResult {
    TrainingProgress progress;
    double loss = 0.0;   // mean of the last steps
    std::string origin;  // of the examples
};

// exec.device: where to train. After a stop at any time, even by a signal, the same call resumes from the
// newest checkpoint and gives the losses of an uninterrupted training on the same device and build.
// Error{numeric} naming the step if the loss is not finite; existing checkpoints are kept.
TrainResult train(const TrainRecipe& recipe, const TrainOptions& options, const Exec& exec);
using Trainer = std::function<TrainResult(const TrainRecipe&, const TrainOptions&, const Exec&)>;

}  // namespace imka

#include "imka/train/torch/steps.hpp"

#include <algorithm>

#include "imka/train/torch/tensors.hpp"

namespace imka {

TrainingSteps::TrainingSteps(const TrainRecipe& recipe, const Performer& start, const LraData& data,
                             const torch::Device& device)
    : recipe_(recipe),
      order_(static_cast<std::int64_t>(data.examples.size()), recipe.train.batch, recipe.train.seed),
      data_(data, device),
      network_(recipe, start, device),
      adam_(network_.parameters(), recipe.train),
      captured_([this] { compute(); }, device),
      batch_(std::min(recipe.train.batch, data_.size())) {
    indices_ = torch::zeros({batch_}, torch::TensorOptions(torch::kLong).device(device));
    loss_ = torch::zeros({}, device);
    correct_ = torch::zeros({}, device);
    history_ = torch::zeros({kHistory, 2}, device);
}

void TrainingSteps::set_omega(std::int64_t step) {
    const auto redraws =
        recipe_.train.redraw > 0 ? static_cast<std::uint64_t>(step / recipe_.train.redraw) : 0;
    if (redraws_ == redraws) return;
    redraws_ = redraws;
    omega_.clear();
    for (std::int64_t i = 0; i < recipe_.model.layers; ++i) {
        omega_.push_back(draw_omega(
            recipe_.model,
            {.seed = recipe_.train.seed, .layer = static_cast<std::uint64_t>(i), .redraws = redraws}));
    }
    network_.set_omega(omega_);
}

// On the device; nothing here waits for it.
void TrainingSteps::compute() {
    network_.parameters().clear_gradients();
    const auto batch = data_.batch(indices_);
    const auto logits = network_.forward(batch, true);
    const auto loss = torch::nn::functional::cross_entropy(logits, batch.labels);
    loss.backward();
    adam_.update();
    network_.clip_weights();
    adam_.update_average();
    const torch::NoGradGuard guard;
    loss_.copy_(loss);
    correct_.copy_((logits.argmax(1) == batch.labels).to(torch::kFloat).mean());
}

// A pass that only moves the input ranges.
void TrainingSteps::follow_ranges(std::int64_t step) {
    const torch::NoGradGuard guard;
    network_.follow_ranges(step);
    network_.forward(data_.batch(indices_), true);
    network_.stop_following();
}

void TrainingSteps::take(std::int64_t step) {
    set_omega(step);
    const auto seed = recipe_.train.seed * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(step);
    torch::manual_seed(seed);
    network_.set_seed(seed);
    send(torch::tensor(order_.step(step), torch::kLong), indices_);
    adam_.set_step(step);
    if (enabled(recipe_.hardware) && step < recipe_.hardware.range_steps) follow_ranges(step);
    captured_.run();
    const torch::NoGradGuard guard;
    history_.select(0, step % kHistory).copy_(torch::stack({loss_, correct_}));
}

Matrix<float> TrainingSteps::history() const {
    return to_matrix(history_);
}

}  // namespace imka

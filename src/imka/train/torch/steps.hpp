// The steps of a training run on its device: batch, loss, gradients, update. Given the weights and moments, a
// step depends only on the seed and its number, so a training run can be resumed.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "imka/data/lra/task.hpp"
#include "imka/train/torch/batches.hpp"
#include "imka/train/torch/captured.hpp"
#include "imka/train/torch/network.hpp"

namespace imka {

class TrainingSteps {
public:
    static constexpr std::int64_t kHistory = 50;  // steps whose losses are kept

    TrainingSteps(const TrainRecipe& recipe, const Performer& start, const LraData& data,
                  const torch::Device& device);
    TrainingSteps(const TrainingSteps&) = delete;
    TrainingSteps& operator=(const TrainingSteps&) = delete;

    // Starts step 0, 1, ... and does not wait for it.
    void take(std::int64_t step);
    // Loss and accuracy of step s in row s % kHistory. Waits for the device.
    Matrix<float> history() const;

    std::int64_t batch_size() const { return batch_; }
    Network& network() { return network_; }
    AdamW& optimiser() { return adam_; }
    const std::vector<Matrix<float>>& omega() const { return omega_; }  // of the last step

private:
    void set_omega(std::int64_t step);
    void compute();
    void follow_ranges(std::int64_t step);

    TrainRecipe recipe_;
    BatchOrder order_;
    ResidentData data_;
    Network network_;
    AdamW adam_;
    CapturedStep captured_;
    std::int64_t batch_;
    torch::Tensor indices_, loss_, correct_, history_;
    std::vector<Matrix<float>> omega_;
    std::optional<std::uint64_t> redraws_;  // of omega_; none: not drawn yet
};

}  // namespace imka

// The parameters of a model in one buffer, and their optimiser.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "imka/train/performer.hpp"
#include "imka/train/recipe.hpp"

namespace imka {

// Named tensors that share one buffer, and their gradients another, so that an update is a few operations on
// two long vectors.
class Parameters {
public:
    // ranges: names of weights whose inputs have a learned range.
    Parameters(const Performer& model, const std::vector<std::string>& ranges, const torch::Device& device);

    const torch::Tensor& operator[](const std::string& name) const { return by_name_.at(name); }
    bool has(const std::string& name) const { return by_name_.count(name) > 0; }
    // The input range of a weight: one value.
    const torch::Tensor& range(const std::string& weight) const { return by_name_.at("range." + weight); }
    const torch::Tensor& values() const { return values_; }
    const torch::Tensor& gradients() const { return gradients_; }
    const torch::Tensor& decays() const { return decays_; }  // 1 where weight decay applies
    void clear_gradients() { gradients_.zero_(); }
    // Swaps all values with those of `other`.
    void exchange(torch::Tensor& other);
    // The current values.
    void store(Performer& model) const;

private:
    torch::Tensor values_, gradients_, decays_;
    std::map<std::string, torch::Tensor> by_name_;
};

// AdamW with a limit on the norm of the gradient. Step and rate are on the device, so nothing waits for it.
class AdamW {
public:
    AdamW(const Parameters& parameters, const TrainConfig& config);
    // Step 0, 1, ...: sets the rate on the device.
    void set_step(std::int64_t step);
    void update();
    // Moves the mean of the weights, if any, towards the current weights.
    void update_average();
    const torch::Tensor& norm() const { return norm_; }  // of the last gradient, before it was limited
    torch::Tensor mean, square;                          // of gradients
    torch::Tensor average;                               // of weights; undefined without config.average

private:
    const Parameters& parameters_;
    TrainConfig config_;
    torch::Tensor rates_;  // learning rate, 1 / (1 - beta1^t), 1 / (1 - beta2^t), share of a step in average
    torch::Tensor norm_;
};

}  // namespace imka

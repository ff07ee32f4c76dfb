// Products as a chip computes them, for hardware-aware training (docs/training.md): inputs are clipped to a
// learned range and quantised, weights and outputs are noisy. Gradients pass straight through.
#pragma once

#include <torch/torch.h>

#include <optional>

#include "imka/chip/spec/chip.hpp"
#include "imka/train/recipe.hpp"

namespace imka {

// The hardware of a training run.
struct AnalogHardware {
    HardwareConfig config;
    std::optional<ChipSpec> chip = noise_chip(config);  // its errors apply to products; none: Gaussian noise
};

// x: batch x ... x inputs; weight: outputs x inputs; range: one value. Without bias.
torch::Tensor analog_product(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& range,
                             const AnalogHardware& hardware);

// x clipped to ±range. The gradient of the range widens it where the gradients of clipped values require it,
// and decays it while nearly all inputs are inside.
torch::Tensor clipped(const torch::Tensor& x, const torch::Tensor& range, const HardwareConfig& config);

// Rounds to `levels` steps per sign of ±range; the gradient is 1.
torch::Tensor quantised(const torch::Tensor& x, const torch::Tensor& range, std::int64_t levels);

}  // namespace imka

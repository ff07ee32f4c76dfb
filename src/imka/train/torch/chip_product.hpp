// Products of an emulated chip in tensors, for training with the chip's own errors (docs/training.md). The
// formulas are those of chip/device/, chip/program/calibrate.hpp and chip/simulate/fast.hpp, for chips that
// read in four phases; every constant is from the chip's file. Tested against the emulator.
#pragma once

#include <torch/torch.h>

#include "imka/chip/device/device.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/train/recipe.hpp"

namespace imka {

struct TrainingChip {
    const ChipSpec& spec;
    WeightNoise written = WeightNoise::batch;  // sample: devices are written for every example, batch: once
};

// x: examples x rows x inputs, between ±range; weight: outputs x inputs; range: one value. Every call writes
// a new chip and reads it immediately. The chip is calibrated with rows of x (at most calibration_inputs of
// BuildConfig); its outputs are fitted by least squares. Matrices larger than a core are cut as on a chip.
// Gradients are those of the product of rounded inputs with the written weights: they pass through noise,
// rounding and saturation unchanged. Nothing waits for the device; random numbers are LibTorch's.
torch::Tensor chip_product(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& range,
                           const TrainingChip& chip);

// `evaluate` of chip/device/device.hpp for every element.
torch::Tensor curve_values(const Curve& curve, const torch::Tensor& u);

}  // namespace imka

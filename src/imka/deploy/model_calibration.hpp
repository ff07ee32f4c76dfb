// Samples of the inputs of every matrix of a model, from a run of the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/build.hpp"
#include "imka/graph/graph.hpp"

namespace imka {

struct SampleOptions {
    BuildConfig config;      // calibration_inputs inferences, and at most as many rows per matrix
    std::uint64_t seed = 0;  // draws both
};

// The inferences for calibration, and at most `most` others for testing; if there are no others, the same
// ones.
std::vector<graph::Tensor> calibration_inferences(std::span<const graph::Tensor> inputs,
                                                  const SampleOptions& options);
std::vector<graph::Tensor> test_inferences(std::span<const graph::Tensor> inputs,
                                           const SampleOptions& options, std::size_t most);

// One sample of inputs per matrix of the plan, as the chip will receive them. A first run finds the range of
// the inputs of every matrix. A second run multiplies the inputs as the chip's input converters round them in
// that range, so that later matrices see the rounding of earlier ones. Error{bad_data} names a matrix whose
// inputs are not finite or all 0.
std::vector<Matrix<float>> collect_samples(const graph::Graph& graph, std::span<const std::string> matrices,
                                           const Plan& plan, std::span<const graph::Tensor> inputs,
                                           const SampleOptions& options, const Exec& exec);

}  // namespace imka

// Where the error of a deployed model comes from: matrix by matrix, and by non-ideality of the chip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "imka/chip/analyse/attribution.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {

// Errors of one matrix, one value per chip.
struct MatrixError {
    std::string name;
    Summary own;          // relative error of its products, for the inputs that it got on the chip
    Summary accumulated;  // relative difference of its products from those of the model in FP32
    Summary alone;        // squared relative error of the outputs with only this matrix on the chip
    Summary added;        // increase of that error when this matrix joins the earlier ones on the chip
};

struct ModelError {
    std::vector<MatrixError> matrices;
    Summary total;  // squared relative error of the outputs with all matrices on the chip: the sum of `added`
};

// Sum of the squared differences over the sum of squares of the reference, over all floating-point outputs.
// Error{bad_data} if the reference is 0.
double squared_error(std::span<const graph::Tensor> outputs, std::span<const graph::Tensor> reference);

// One chip per seed, built like that of the model. A relative error is the root of the sum of squared
// differences, divided by the root of the sum of squared FP32 values; outputs are the floating-point outputs
// of the graph. Error{bad_data} if they are all 0.
ModelError model_error(const DeployedModel& model, std::span<const graph::Tensor> inputs,
                       std::span<const std::uint64_t> seeds, const Exec& exec);

// The causes of the squared error of the outputs. Runs on the processor, whatever exec.device is.
ErrorAttribution attribute_model_error(const DeployedModel& model, std::span<const graph::Tensor> inputs,
                                       std::span<const std::uint64_t> seeds, const Exec& exec);

}  // namespace imka

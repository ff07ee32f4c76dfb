// What a chip costs in accuracy: runs on it beside those in FP32, over data sets (docs/fidelity.md).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "imka/experiment/record.hpp"

namespace imka::report {

// Runs of one kernel and size on one chip in one way. A loss is FP32 - chip, of the same data, split, kernel,
// sampler, size and seed.
struct LossRow {
    std::string experiment;
    std::string kernel;
    std::string sampler;
    std::string size;  // as it was asked for: "r = 4" or "D = 512"
    std::string chip;  // and the settings that tell it from other runs of the experiment
    std::size_t datasets = 0;
    std::size_t pairs = 0;
    double mean = 0.0;   // loss of accuracy, mean over data sets of the means over seeds; a share of 1
    double error = 0.0;  // standard error of that mean, from the spread over seeds within data sets
    double most = 0.0;   // largest mean loss of a data set
    std::string worst;   // that data set
};

// By experiment, kernel, sampler, size and chip. Runs on a chip without their FP32 run are left out.
std::vector<LossRow> losses_of(const std::vector<Record>& records);

}  // namespace imka::report

// Accuracy lost on a chip compared with FP32, averaged over data sets (docs/fidelity.md).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "imka/experiment/record.hpp"

namespace imka::report {

// Runs of one kernel and size on one chip with one set of settings. A loss is FP32 - chip for the same data,
// split, kernel, sampler, size and seed.
struct LossRow {
    std::string experiment;
    std::string kernel;
    std::string sampler;
    std::string size;  // as in the settings: "r = 4" or "D = 512"
    std::string chip;  // and the settings that distinguish it within the experiment
    std::size_t datasets = 0;
    std::size_t pairs = 0;
    double mean = 0.0;  // loss of accuracy as a fraction: mean over data sets of the means over seeds
    // Standard error of that mean, from the spread over seeds within data sets; 0 if a data set has a single
    // seed.
    double error = 0.0;
    double most = 0.0;  // largest mean loss of a data set
    std::string worst;  // that data set
};

// By experiment, kernel, sampler, size and chip. Skips chip runs without a matching FP32 run.
std::vector<LossRow> losses_of(const std::vector<Record>& records);

}  // namespace imka::report

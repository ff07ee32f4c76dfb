// Signatures of candidate mechanisms: how each changes the Gram errors, compared with the error that the
// emulation lacks.
#pragma once

#include <string>
#include <vector>

#include "imka/metrics/metrics.hpp"

namespace imka {

// The cells of one data set, kernel and sampler.
struct Signature {
    std::string dataset;
    std::string kernel;
    std::string sampler;
    double missing = 0.0;         // mean of ln(measured / emulated Gram error)
    double missing_error = 0.0;   // standard error of `missing`
    std::vector<double> changes;  // per candidate: mean of ln(Gram error / Gram error of the chip itself)
};

// `emulations`: cells of the chip itself, then the same cells of every candidate. Uses the cells with at
// least this log ratio and keeps their order.
std::vector<Signature> signatures(const std::vector<std::vector<FidelityCell>>& emulations,
                                  double least_log_ratio);

}  // namespace imka

// Compares an emulated chip with the measured one, cell by cell (docs/fidelity.md).
#pragma once

#include <string>
#include <vector>

#include "imka/metrics/metrics.hpp"
#include "imka/report/figure.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

// A target over all data sets, and its result.
struct FidelityAim {
    std::string quantity;  // "Gram error, rbf"
    double aim = 0.0;
    double value = 0.0;
    double noise = 0.0;  // 0 for accuracies
    bool met = false;
};

struct Fidelity {
    std::string chip;  // with other settings that distinguish it within the experiment
    std::vector<FidelityCell> cells;
    std::vector<FidelityScore> rows;    // one per data set and kernel
    std::vector<FidelityScore> totals;  // one per kernel, then all
    std::vector<FidelityAim> aims;
};
// One per chip of an experiment with runs in the measured protocol that have published values.
std::vector<Fidelity> fidelity_of(const std::vector<Figure>& figures, const std::string& experiment);

// Two plots per kernel: emulated against measured Gram errors; residuals by data set, sampler and size.
std::vector<Plot> fidelity_plots(const Fidelity& fidelity, const std::string& id);

}  // namespace imka::report

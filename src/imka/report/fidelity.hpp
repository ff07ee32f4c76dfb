// How far an emulated chip is from the measured one, cell by cell (docs/fidelity.md).
#pragma once

#include <string>
#include <vector>

#include "imka/metrics/fidelity.hpp"
#include "imka/report/figure.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

// What is aimed at over all data sets.
struct FidelityAim {
    std::string quantity;  // "Gram error, rbf"
    double aim = 0.0;
    double value = 0.0;
    double noise = 0.0;  // 0 for accuracies
    bool met = false;
};

struct Fidelity {
    std::string chip;  // and other settings that tell it from the others of the experiment
    std::vector<FidelityCell> cells;
    std::vector<FidelityScore> rows;    // one a data set and kernel
    std::vector<FidelityScore> totals;  // one a kernel, then all
    std::vector<FidelityAim> aims;
};
// One for each chip of an experiment that was run in the measured protocol where there are published values.
std::vector<Fidelity> fidelity_of(const std::vector<Figure>& figures, const std::string& experiment);

// Emulated against measured Gram errors, and residuals by data set, sampler and size: two a kernel.
std::vector<Plot> fidelity_plots(const Fidelity& fidelity, const std::string& id);

}  // namespace imka::report

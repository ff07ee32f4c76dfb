// How far an emulated chip is from the measured one, cell by cell (docs/fidelity.md).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "imka/report/figure.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

// One data set, kernel, sampler and size, over seeds of the emulation and of the measurement.
struct FidelityCell {
    std::string dataset;
    std::string kernel;
    std::string sampler;
    double log_ratio = 0.0;
    std::int64_t m = 0;
    Statistics error;  // Gram error, emulated
    Statistics error_measured;
    std::optional<Statistics> accuracy;
    std::optional<Statistics> accuracy_measured;

    double residual() const;        // ln(emulated mean Gram error / measured mean)
    double residual_error() const;  // its standard error, from those of both means
    double accuracy_difference() const;
    // Within 2 combined standard errors or 0.5 points.
    bool accuracy_agrees() const;
};
inline constexpr double kAccuracyErrors = 2.0;
inline constexpr double kAccuracyPoints = 0.005;

// Cells taken together.
struct FidelityRow {
    std::string dataset;  // "all"
    std::string kernel;   // "all"
    std::size_t cells = 0;
    double rms = 0.0;    // of the residuals
    double noise = 0.0;  // the RMS that an exact emulation would have, from the standard errors alone
    double bias = 0.0;   // mean residual
    std::size_t accuracy_cells = 0;
    std::size_t accuracy_agrees = 0;

    double excess() const;  // RMS beyond the noise; 0 where there is none
    double accuracy_share() const;
};

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
    std::vector<FidelityRow> rows;    // one a data set and kernel
    std::vector<FidelityRow> totals;  // one a kernel, then all
    std::vector<FidelityAim> aims;
};
// One for each chip of an experiment that was run in the measured protocol where there are published values.
std::vector<Fidelity> fidelity_of(const std::vector<Figure>& figures, const std::string& experiment);

// Emulated against measured Gram errors, and residuals by data set, sampler and size: two a kernel.
std::vector<Plot> fidelity_plots(const Fidelity& fidelity, const std::string& id);

}  // namespace imka::report

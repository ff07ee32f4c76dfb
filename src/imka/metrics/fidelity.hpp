// Deviation of emulated results from measured ones (docs/fidelity.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "imka/metrics/summary.hpp"

namespace imka {

// One data set, kernel, sampler and size: Gram error and accuracy over seeds, emulated and measured.
struct FidelityCell {
    std::string dataset;
    std::string kernel;
    std::string sampler;
    double log_ratio = 0.0;
    std::int64_t m = 0;
    Summary error;  // Gram error, emulated
    Summary error_measured;
    std::optional<Summary> accuracy;
    std::optional<Summary> accuracy_measured;

    double residual() const;        // ln(emulated mean Gram error / measured mean)
    double residual_error() const;  // its standard error, from the standard errors of both means
    double accuracy_difference() const;
    double accuracy_error() const;  // combined standard error of the difference
    // Within 2 combined standard errors or 0.5 points.
    bool accuracy_agrees() const;
};
inline constexpr double kAccuracyErrors = 2.0;
inline constexpr double kAccuracyPoints = 0.005;

// Score of several cells.
struct FidelityScore {
    std::string dataset;  // "all"
    std::string kernel;   // "all"
    std::size_t cells = 0;
    double rms = 0.0;    // of the residuals
    double noise = 0.0;  // expected RMS of an exact emulation, from the standard errors
    double bias = 0.0;   // mean residual
    std::size_t accuracy_cells = 0;
    std::size_t accuracy_agrees = 0;

    double excess() const;  // RMS beyond the noise; 0 if within it
    double accuracy_share() const;
};
// Score of the cells of one data set and kernel; "all" selects all.
FidelityScore fidelity_score(const std::vector<FidelityCell>& cells, const std::string& dataset,
                             const std::string& kernel);

}  // namespace imka

// Fits the constants of a chip to measurements, and samples their posterior.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "imka/experiment/comparison.hpp"

namespace imka {

// A constant to fit.
struct FreeConstant {
    std::string name;  // "core.adc_noise"
    double low = 0.0;
    double high = 0.0;
    double step = 0.0;  // for finite differences
};

struct FittedChip {
    std::vector<double> values;
    std::vector<double> errors;   // standard errors
    std::vector<double> matters;  // change that raises chi² by 4 while the other constants stay fixed
    Matrix<double> correlations;
    double chi2 = 0.0;    // of Gram errors and accuracies
    double excess = 1.0;  // chi² per degree of freedom, at least 1; errors are scaled by its root
    std::size_t evaluations = 0;
    std::vector<FidelityCell> cells;
    // Leave-one-out: each data set is predicted by a fit without it.
    struct LeftOut {
        std::string dataset;
        std::vector<double> values;
        std::vector<FidelityScore> scores;  // of that data set
    };
    std::vector<LeftOut> left_out;
};

struct ChipFitConfig {
    std::vector<FreeConstant> free;
    int iterations = 6;     // damped Gauss-Newton steps
    bool leave_out = true;  // repeat the fit without each data set
};

// Least squares over residuals(). Starts at the values of `chip`.
FittedChip fit_chip(const ChipComparison& comparison, const ChipSpec& chip, const ChipFitConfig& config,
                    const Exec& exec);
// The chip with these values of the free constants.
ChipSpec with_constants(ChipSpec chip, const std::vector<FreeConstant>& free,
                        const std::vector<double>& values);

// A measured Gram error and its prediction over a sample of the posterior, as natural logarithms.
struct CellPrediction {
    double predicted = 0.0;
    double measured = 0.0;
    double chip_sd = 0.0;   // over the constants of the chip
    double seeds_sd = 0.0;  // of the means over the emulated and the measured seeds
    // Within 1.96 standard deviations of chip and seeds, and of `model` (kModelError or 0).
    bool covered(double model) const;
};

// Metropolis chain whose proposals are independent draws from the Gaussian (Laplace) approximation of the
// posterior. If the approximation were exact, all proposals would be accepted.
struct Posterior {
    std::vector<std::vector<double>> draws;  // states of the chain, one per proposal, in random order
    double accepted = 0.0;                   // share of the proposals
    std::vector<CellPrediction> cells;
    double coverage(double model) const;                     // share of cells
    std::vector<double> values(std::size_t constant) const;  // of one constant, in the order of the draws
};

struct PosteriorConfig {
    int draws = 40;
    std::uint64_t seed = 0;
};
// Prior: uniform in the ranges of the constants. Likelihood: exp(-chi² / (2 excess)). Costs one emulation of
// all runs per proposal.
Posterior sample_posterior(const ChipComparison& comparison, const ChipSpec& chip,
                           const std::vector<FreeConstant>& free, const FittedChip& fit,
                           const PosteriorConfig& config, const Exec& exec);
// The fitted chip, with the draws of its constants if there are any.
ChipSpec measured_chip(ChipSpec chip, const std::vector<FreeConstant>& free, const FittedChip& fit,
                       const std::optional<Posterior>& posterior);

}  // namespace imka

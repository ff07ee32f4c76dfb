// Fits the constants of a chip to measurements: Gram errors and accuracies of an experiment on the real chip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/data/dataset.hpp"
#include "imka/experiment/spec.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {

// For every kernel: the score of all data sets, then of each one.
std::vector<FidelityScore> scores(const std::vector<FidelityCell>& cells);

struct ComparisonConfig {
    Experiment experiment;           // the runs to emulate; settings of each data set as in the measured runs
    std::filesystem::path measured;  // read_published()
    std::filesystem::path data_dir;
    std::string backend = "hermes";     // rows of the CSV file to use
    std::int64_t test_rows = 6000;      // evenly spaced test rows for the accuracies
    std::vector<std::string> datasets;  // empty: all measured data sets
};

// Everything about the runs that does not depend on the chip's constants: data, Ω, exact Gram matrices,
// weights fitted in FP32.
class ChipComparison {
public:
    ChipComparison(const ComparisonConfig& config, const Exec& exec);
    ~ChipComparison();
    ChipComparison(const ChipComparison&) = delete;
    ChipComparison& operator=(const ChipComparison&) = delete;

    // The cells with the results of this chip. The seeds are always the same, so two chips differ only in
    // their constants. The bits do not depend on the number of threads.
    std::vector<FidelityCell> emulate(const ChipSpec& chip, const Exec& exec) const;
    std::size_t runs() const;

private:
    struct Data;
    struct Run;
    std::vector<FidelityCell> cells_;
    std::vector<std::unique_ptr<Data>> data_;
    std::vector<Run> runs_;
};

// A constant to fit.
struct FreeConstant {
    std::string name;  // "core.adc_noise"
    double low = 0.0;
    double high = 0.0;
    double step = 0.0;  // for finite differences
};

struct FittedChip {
    std::vector<double> values;
    std::vector<double> errors;  // standard errors
    Matrix<double> correlations;
    double chi2 = 0.0;  // of Gram errors and accuracies
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

// Least squares over cells of ln(Gram error) and accuracy, weighted by sampling noise plus a model error
// (kModelError, kModelAccuracy). Starts at the values of `chip`.
FittedChip fit_chip(const ChipComparison& comparison, const ChipSpec& chip, const ChipFitConfig& config,
                    const Exec& exec);
inline constexpr double kModelError = 0.05;       // of ln(Gram error)
inline constexpr double kModelAccuracy = 0.0025;  // a quarter of a point

}  // namespace imka

// Constants of a chip from measurements of it: Gram errors and accuracies of an experiment that ran on the
// real chip, emulated again and again until both agree.
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
#include "imka/metrics/fidelity.hpp"

namespace imka {

// For every kernel: all data sets, then each.
std::vector<FidelityScore> scores(const std::vector<FidelityCell>& cells);

struct ComparisonConfig {
    Experiment experiment;           // its runs on the chip; settings of each set as in the measured runs
    std::filesystem::path measured;  // read_published()
    std::filesystem::path data_dir;
    std::string backend = "hermes";     // of the rows of the CSV
    std::int64_t test_rows = 6000;      // of the test part for accuracies, evenly spaced
    std::vector<std::string> datasets;  // empty: all that were measured
};

// Everything about the runs that does not depend on the chip's constants: data, Ω, exact Gram matrices,
// weights fitted in FP32.
class ChipComparison {
public:
    ChipComparison(const ComparisonConfig& config, const Exec& exec);
    ~ChipComparison();
    ChipComparison(const ChipComparison&) = delete;
    ChipComparison& operator=(const ChipComparison&) = delete;

    // The cells with what this chip gives. The same seeds every time, so that two chips differ by their
    // constants alone. Same bits for any thread count.
    std::vector<FidelityCell> emulate(const ChipSpec& chip, const Exec& exec) const;
    std::size_t runs() const;

private:
    struct Data;
    struct Run;
    std::vector<FidelityCell> cells_;
    std::vector<std::unique_ptr<Data>> data_;
    std::vector<Run> runs_;
};

// A constant that is searched for.
struct FreeConstant {
    std::string name;  // "core.adc_noise"
    double low = 0.0;
    double high = 0.0;
    double step = 0.0;  // over which the effect on cells is measured
};

struct FittedChip {
    std::vector<double> values;
    std::vector<double> errors;  // standard errors
    Matrix<double> correlations;
    double chi2 = 0.0;  // of Gram errors and accuracies
    std::size_t evaluations = 0;
    std::vector<FidelityCell> cells;
    // Each data set left out of the fit, then predicted by it.
    struct LeftOut {
        std::string dataset;
        std::vector<double> values;
        std::vector<FidelityScore> scores;  // of that set alone
    };
    std::vector<LeftOut> left_out;
};

struct ChipFitConfig {
    std::vector<FreeConstant> free;
    int iterations = 6;     // of Gauss-Newton steps with damping
    bool leave_out = true;  // each set once
};

// Least squares over cells of ln(Gram error) and accuracy, each by its sampling noise and what a model of few
// constants is granted on top (kModelError, kModelAccuracy). Starts at the values that `chip` has.
FittedChip fit_chip(const ChipComparison& comparison, const ChipSpec& chip, const ChipFitConfig& config,
                    const Exec& exec);
inline constexpr double kModelError = 0.05;       // of ln(Gram error)
inline constexpr double kModelAccuracy = 0.0025;  // a quarter of a point

}  // namespace imka

// The emulated chip compared with measurements: Gram errors and accuracies of an experiment on the real chip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/experiment/spec.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {

// For every kernel: the score of all data sets, then of each one.
std::vector<FidelityScore> scores(const std::vector<FidelityCell>& cells);

// Residuals for a fit, two per cell: differences of ln(Gram error) and of accuracy, each divided by its
// sampling noise plus a model error.
std::vector<double> residuals(const std::vector<FidelityCell>& cells);
double chi_squared(const std::vector<FidelityCell>& cells);
inline constexpr double kModelError = 0.05;       // of ln(Gram error)
inline constexpr double kModelAccuracy = 0.0025;  // a quarter of a point

struct ComparisonConfig {
    Experiment experiment;           // the runs to emulate; settings of each data set as in the measured runs
    std::filesystem::path measured;  // read_published()
    std::filesystem::path data_dir;
    std::string backend = "hermes";     // rows of the CSV file to use
    std::int64_t test_rows = 6000;      // evenly spaced test rows for the accuracies
    std::vector<std::string> datasets;  // empty: all measured data sets
    // File that keeps emulations, so that they are not repeated; empty: none.
    std::filesystem::path kept;
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
    class Kept;
    struct Values {
        std::vector<double> errors;  // one per run
        std::vector<double> accuracies;
    };
    Values emulate_runs(const ChipSpec& chip, const Exec& exec) const;
    std::string identity(std::int64_t test_rows) const;

    std::vector<FidelityCell> cells_;
    std::vector<std::unique_ptr<Data>> data_;
    std::vector<Run> runs_;
    std::unique_ptr<Kept> kept_;
};

}  // namespace imka

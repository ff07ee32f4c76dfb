// Averages over data sets and samplers, in FP32 and on a chip, computed in the same way for our results and
// for the published values.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "imka/experiment/record.hpp"
#include "imka/report/figure.hpp"
#include "imka/report/paper.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

struct Level {
    double mean = 0.0;
    double std = 0.0;    // over seeds, averaged over samplers
    double error = 0.0;  // standard error of the mean
};
using Levels = std::vector<std::optional<Level>>;  // one per size

struct AccuracyRow {
    std::string dataset;
    std::string kernel;
    std::string backend;
    Levels ours;
    Levels published;
    // Within 3 combined standard errors; `unlike` if the protocols differ.
    std::vector<Verdict> verdicts;
};
// One row per data set, kernel and backend of an experiment: FP32, and its chip if any.
std::vector<AccuracyRow> accuracy_rows(const std::vector<Figure>& figures, const std::string& experiment,
                                       const std::vector<SizeRule>& sizes);

// Differences between chip and FP32: rows with mean = accuracy on the chip - accuracy in FP32, std = 0, and
// standard errors.
std::vector<AccuracyRow> difference_rows(const std::vector<AccuracyRow>& accuracy);

// Differences averaged over data sets.
struct MeanDifference {
    double mean = 0.0;
    double error = 0.0;     // standard error of the mean
    double absolute = 0.0;  // mean of the absolute differences
    double worst = 0.0;     // the lowest difference
    std::string worst_dataset;
    std::size_t datasets = 0;
};
struct DifferenceSummary {
    std::string kernel;
    std::size_t rule = 0;  // index of the size
    MeanDifference ours;
    MeanDifference ours_shared;  // over the data sets with a published difference
    MeanDifference published;    // over the same data sets
};
// One per kernel and size.
std::vector<DifferenceSummary> summarise_differences(const std::vector<AccuracyRow>& differences);

// Accuracies of the data sets side by side, FP32 and chip: one per size and kernel. Empty without a chip.
std::vector<Plot> accuracy_plots(const std::vector<AccuracyRow>& accuracy, const std::string& experiment,
                                 const std::vector<SizeRule>& sizes);

// Gram error divided by the largest error of its task or of its kernel, averaged over data sets and samplers,
// against r. FP32 and chip use the same largest error and the same data sets.
enum class Normaliser { task, kernel };
struct Normalised {
    std::map<double, double> fp32;  // by r
    std::map<double, double> chip;
    std::size_t datasets = 0;
};
// Values and data sets to average: data sets with our values, in FP32 and on the chip if any, and also with
// published values if `shared`.
struct Choice {
    Side side = Side::ours;
    Normaliser by = Normaliser::task;
    bool shared = false;
};
Normalised normalise(const std::vector<Figure>& figures, const std::string& experiment,
                     const std::string& kernel, const Choice& choice);

// One per kernel; two if chip values are published only for some of the data sets.
std::vector<Plot> normalised_errors(const std::vector<Figure>& figures, const std::string& experiment);

// Accuracy lost on a chip compared with FP32, averaged over data sets (docs/fidelity.md).

// Runs of one kernel and size on one chip with one set of settings. A loss is FP32 - chip for the same data,
// split, kernel, sampler, size and seed.
struct LossRow {
    std::string experiment;
    std::string kernel;
    std::string sampler;
    std::string size;  // as in the settings: "r = 4" or "D = 512"
    std::string chip;  // with the settings that distinguish it within the experiment
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

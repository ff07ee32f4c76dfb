// Averages over data sets and samplers, in FP32 and on a chip: from our figures and from the published values
// by the same rules.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

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
    // Within 3 combined standard errors; `unlike` where the protocols differ.
    std::vector<Verdict> verdicts;
};
// One row per data set, kernel and backend of an experiment: FP32, and its chip where there is one.
std::vector<AccuracyRow> accuracy_rows(const std::vector<Figure>& figures, const std::string& experiment,
                                       const std::vector<SizeRule>& sizes);

// What a chip changes: its rows with mean = accuracy on the chip - accuracy in FP32, std = 0, and their
// errors.
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
    MeanDifference ours_shared;  // over the data sets that have a published difference
    MeanDifference published;    // over the same
};
// One per kernel and size.
std::vector<DifferenceSummary> summarise_differences(const std::vector<AccuracyRow>& differences);

// Accuracies of the data sets side by side, FP32 and chip: one per size and kernel. Empty without a chip.
std::vector<Plot> accuracy_plots(const std::vector<AccuracyRow>& accuracy, const std::string& experiment,
                                 const std::vector<SizeRule>& sizes);

// Gram error over the largest of its task or of its kernel, averaged over data sets and samplers, against r.
// FP32 and chip share the largest error and the data sets.
enum class Normaliser { task, kernel };
struct Normalised {
    std::map<double, double> fp32;  // by r
    std::map<double, double> chip;
    std::size_t datasets = 0;
};
// On which values, and over which data sets: those with values of ours, in FP32 and on the chip where there
// is one, and with published ones too if `shared`.
struct Choice {
    Side side = Side::ours;
    Normaliser by = Normaliser::task;
    bool shared = false;
};
Normalised normalise(const std::vector<Figure>& figures, const std::string& experiment,
                     const std::string& kernel, const Choice& choice);

// One per kernel; two where chip values were published for some of the data sets only.
std::vector<Plot> normalised_errors(const std::vector<Figure>& figures, const std::string& experiment);

}  // namespace imka::report

// What the paper's main figure says about kernel approximation, in FP32 and on a chip: from our figures and
// from the published values by the same rules.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "imka/report/figure.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

// At which size an accuracy is taken; the mean over samplers follows.
enum class SizeRule {
    features_32,    // D/d = 32, as the paper's text says: r = 4 where a direction gives two features, else 5
    directions_32,  // m/d = 32: r = 5
    best,           // the best r of each sampler, as the published runs were plotted
};
inline constexpr std::size_t kSizeRules = 3;
// "D/d = 32", "m/d = 32", "best r"
std::string_view rule_name(std::size_t rule);

struct Level {
    double mean = 0.0;
    double std = 0.0;    // over seeds, averaged over samplers
    double error = 0.0;  // standard error of the mean
};
using Levels = std::array<std::optional<Level>, kSizeRules>;

struct AccuracyRow {
    std::string dataset;
    std::string kernel;
    std::string backend;
    Levels ours;
    Levels published;
    // Within 3 combined standard errors; `unlike` where the protocols differ.
    std::array<Verdict, kSizeRules> verdicts{};
};
// One row a data set, kernel and backend of an experiment: FP32, and its chip where there is one.
std::vector<AccuracyRow> accuracy_rows(const std::vector<Figure>& figures, const std::string& experiment);

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
    std::size_t rule = 0;
    MeanDifference ours;
    MeanDifference ours_shared;  // over the data sets that have a published difference
    MeanDifference published;    // over the same
};
// One a kernel and size rule.
std::vector<DifferenceSummary> summarise_differences(const std::vector<AccuracyRow>& differences);

// What the paper's text says of all six data sets, in points: mean absolute differences, and the largest; and
// the same from the released results of all six.
struct TextDifference {
    std::string_view kernel;
    double text = 0.0;
    double released = 0.0;
};
inline constexpr std::array kTextDifferences = {
    TextDifference{.kernel = "rbf", .text = 0.481, .released = 0.481},
    TextDifference{.kernel = "arccos0", .text = 0.939, .released = 0.657},
};
inline constexpr double kTextLargest = 2.62;      // eeg, arccos0
inline constexpr double kReleasedLargest = 1.97;  // the same

// Accuracies of the data sets side by side, FP32 and chip: one a size rule and kernel. Empty without a chip.
std::vector<Plot> accuracy_plots(const std::vector<AccuracyRow>& accuracy, const std::string& experiment);

// Gram error over the largest of its task (the paper's text) and of its kernel (the published runs), averaged
// over data sets and samplers, against r. FP32 and chip share the largest error and the data sets.
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

// One a kernel; two where chip values were published for some of the data sets only.
std::vector<Plot> normalised_errors(const std::vector<Figure>& figures, const std::string& experiment);

}  // namespace imka::report

// What the paper's main figure and its text say about FP32 kernel approximation, from our figures and from
// the published values by the same rules.
#pragma once

#include <array>
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

struct Level {
    double mean = 0.0;
    double std = 0.0;    // over seeds, averaged over samplers
    double error = 0.0;  // standard error of the mean
};

struct AccuracyRow {
    std::string dataset;
    std::string kernel;
    std::array<std::optional<Level>, kSizeRules> ours;
    std::array<std::optional<Level>, kSizeRules> published;
    // Within 3 combined standard errors; `unlike` where the protocols differ.
    std::array<Verdict, kSizeRules> verdicts{};
};
// One row a data set and kernel of an experiment.
std::vector<AccuracyRow> accuracy_rows(const std::vector<Figure>& figures, const std::string& experiment);

// Gram error over the largest of its task (the paper's text) and of its kernel (the published runs), averaged
// over data sets and samplers, against r. Empty without a data set in which all sizes were run.
std::vector<Plot> normalised_errors(const std::vector<Figure>& figures, const std::string& experiment);

// A sentence of the text, and in how many cases it holds.
struct Claim {
    std::string text;
    std::size_t holds = 0;
    std::size_t cases = 0;
};
std::vector<Claim> check_claims(const std::vector<Figure>& figures, const std::string& experiment);

}  // namespace imka::report

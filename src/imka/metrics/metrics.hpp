// Measures of results: accuracy, R² and RMSE, Gram error, means and medians over repeated runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

// Classification accuracy.

// Number of equal entries. Both spans have the same length.
std::size_t count_right(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted);

// Fraction of equal entries. Needs at least one row.
double accuracy(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted);

// Standard error of a share of `count` examples, from the choice of the examples. Needs at least one.
double binomial_error(double share, std::size_t count);

// R² and RMSE of predicted numbers, row by row.
struct SquaredErrors {
    std::uint64_t rows = 0;
    double errors = 0.0;  // sum of (target - prediction)²
    double mean = 0.0;    // of the targets
    double spread = 0.0;  // sum of (target - mean)²

    void add(double target, double prediction);
    // Square root of the mean squared error. Needs at least one row.
    double rmse() const;
    // 1 - errors / spread. Error{bad_data} if all targets are equal.
    double r2() const;
};

// Relative error of an approximate Gram matrix.

// ‖K - ZZᵀ‖_F / ‖K‖_F; K is n x n, Z has the features of the same n rows. Products and sums in double.
// Error{numeric} if K is zero. The bits do not depend on the number of threads.
double gram_error(MatrixView<const double> exact, MatrixView<const float> z, const Exec& exec);
// The same for (Z Z'ᵀ + Z' Zᵀ) / 2, where Z' has the features of the same rows with independent errors:
// errors of the features then do not bias their products.
double gram_error(MatrixView<const double> exact, MatrixView<const float> z, MatrixView<const float> other,
                  const Exec& exec);

// Mean, standard deviation and confidence interval over repeated runs.
struct Summary {
    double mean = 0.0;
    double std = 0.0;         // with n - 1; 0 for one value
    double half_width = 0.0;  // of the 95 % confidence interval of the mean (Student); 0 for one value
    std::size_t n = 0;        // 0: no value
    std::vector<double> values = {};  // empty if only the statistics are known

    double error() const;  // standard error of the mean: std / sqrt(n); 0 without values
};

// {"mean", "std", "ci95", "values"}; std and ci95 are null unless there are at least two values.
std::string to_json(const Summary& summary);

// Needs at least one value. Error{numeric} if one is not finite.
Summary summarize(std::vector<double> values);

// (a.mean - b.mean) / combined standard error; infinite if the means differ and both errors are 0.
double deviation(const Summary& a, const Summary& b);

// P(|T| <= t) for Student's law with `freedom` degrees of freedom (t >= 0, freedom >= 1).
double student_probability(double t, std::size_t freedom);

// t with P(|T| <= t) = confidence for Student's law with `freedom` degrees of freedom (freedom >= 1).
double student_quantile(double confidence, std::size_t freedom);

// Medians with distribution-free confidence intervals, for times, whose errors are one-sided.

// Needs at least one value. For an even number of values, the mean of the middle two.
double median(std::span<const double> values);

// The population median lies in [low, high] with at least this confidence: the narrowest symmetric pair of
// order statistics with 95 %. Fewer than six values cannot reach 95 %; then low and high are the minimum and
// maximum, with their confidence.
struct MedianInterval {
    double median = 0.0;
    double low = 0.0;
    double high = 0.0;
    double confidence = 0.0;
};
MedianInterval median_interval(std::span<const double> values);

// Deviation of emulated results from measured ones (docs/fidelity.md).

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

// Mean, standard deviation and confidence interval over repeated runs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace imka {

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

// Needs at least one value.
Summary summarize(std::vector<double> values);

// (a.mean - b.mean) / combined standard error; infinite if the means differ and both errors are 0.
double deviation(const Summary& a, const Summary& b);

// P(|T| <= t) for Student's law with `freedom` degrees of freedom (t >= 0, freedom >= 1).
double student_probability(double t, std::size_t freedom);

// t with P(|T| <= t) = confidence for Student's law with `freedom` degrees of freedom (freedom >= 1).
double student_quantile(double confidence, std::size_t freedom);

}  // namespace imka

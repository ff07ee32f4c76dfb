// Mean, deviation and confidence over repeated runs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace imka {

struct Summary {
    double mean = 0.0;
    double std = 0.0;         // with n - 1; 0 for one value
    double half_width = 0.0;  // of the 95 % confidence interval of the mean (Student); 0 for one value
    std::vector<double> values;
};

// At least one value.
Summary summarize(std::vector<double> values);

// std / sqrt(n).
double standard_error(const Summary& s);

// P(|T| <= t) for Student's law with `freedom` degrees of freedom (t >= 0, freedom >= 1).
double student_probability(double t, std::size_t freedom);

// t with P(|T| <= t) = confidence for Student's law with `freedom` degrees of freedom (freedom >= 1).
double student_quantile(double confidence, std::size_t freedom);

}  // namespace imka

// Standardisation: every feature to mean 0 and standard deviation 1 of a reference set of rows.
#pragma once

#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

struct Standardization {
    std::vector<double> mean;  // one a feature
    std::vector<double> std;   // one a feature, with N - 1; 1 where the feature is constant
    bool operator==(const Standardization&) const = default;
};

// Statistics of the rows, in double over fixed tiles: the same bits for any number of threads. A constant
// feature (also: a single row) gets its value as the mean and the scale 1, with a note; so it becomes 0.
Standardization compute_standardization(MatrixView<const float> x, const Exec& exec);

// x(r, c) = (x(r, c) - mean[c]) / std[c], evaluated in double and rounded once to float: a mean that float
// cannot hold (a column of large numbers close together) shifts nothing. The number of columns must agree.
void apply_standardization(const Standardization& s, MatrixView<float> x, const Exec& exec);

}  // namespace imka

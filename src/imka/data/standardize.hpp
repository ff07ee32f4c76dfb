// Standardisation: scales features to mean 0 and standard deviation 1 over a reference set of rows.
#pragma once

#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

struct Standardization {
    std::vector<double> mean;  // per feature
    std::vector<double> std;   // per feature, with N - 1; 1 if the feature is constant
    bool operator==(const Standardization&) const = default;
};

// Computed in double over fixed tiles: the same bits for any number of threads. A constant feature (for a
// single row, every feature) gets its value as mean and 1 as std, so it becomes 0; a note says so.
Standardization compute_standardization(MatrixView<const float> x, const Exec& exec);

// x(r, c) = (x(r, c) - mean[c]) / std[c], evaluated in double and rounded once to float, so that columns with
// large values close together keep their digits. The number of columns must match.
void apply_standardization(const Standardization& s, const Exec& exec, MatrixView<float> x);

}  // namespace imka

// Column conductances without calibration.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "imka/chip/region.hpp"

namespace imka {

// Which weight gets the largest conductance.
enum class WeightScale {
    layer,   // the largest of the matrix
    column,  // the largest of each column
};

// Conductance of each column's largest weight, uS. Errors as in map_weights.
inline std::vector<double> column_conductances(MatrixView<const float> weights, WeightScale scale,
                                               double g_max_us) {
    // With 1 uS for the largest weight of a column, weight_per_us is that weight.
    auto maxima = map_weights(weights, std::vector<double>(weights.cols(), 1.0)).weight_per_us;
    if (maxima.empty()) return maxima;
    const double largest = std::ranges::max(maxima);
    // A column of zeros has no largest weight; any conductance works.
    for (auto& m : maxima) m = scale == WeightScale::column || m == 0.0 ? g_max_us : g_max_us * m / largest;
    return maxima;
}

}  // namespace imka

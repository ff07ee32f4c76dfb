// Weights as conductances: devices of positive polarity hold positive weights, the others negative ones;
// the opposite polarity gets the target 0. Rows of weights are inputs and columns are outputs, as in a
// crossbar.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

// Which weight gets the largest conductance.
enum class WeightScale {
    layer,   // the largest of the matrix
    column,  // the largest of each column
};
template <>
struct EnumNames<WeightScale> {
    static constexpr std::string_view what = "weight scale";
    static constexpr std::string_view values[] = {"layer", "column"};
};

// Conductance of each column's largest weight, uS.
std::vector<double> column_conductances(MatrixView<const float> weights, WeightScale scale, double g_max_us);

struct MappedWeights {
    Matrix<float> plus_us;  // targets
    Matrix<float> minus_us;
    std::vector<double> weight_per_us;  // per column; 0 if all its weights are 0
};

// Error{bad_data} for weights that are not finite, naming the first; Error{bad_config} for conductances
// that are not > 0.
MappedWeights map_weights(MatrixView<const float> weights, std::span<const double> column_us);

}  // namespace imka

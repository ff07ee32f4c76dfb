#include "imka/chip/program/mapping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "imka/base/error.hpp"

namespace imka {
namespace {

std::vector<double> column_maxima(MatrixView<const float> weights) {
    std::vector<double> maxima(weights.cols(), 0.0);
    for (std::size_t r = 0; r < weights.rows(); ++r) {
        for (std::size_t c = 0; c < weights.cols(); ++c) {
            if (!std::isfinite(weights(r, c)))
                fail(ErrorCode::bad_data,
                     fmt::format("weight of input {}, output {}: {} is not finite", r, c, weights(r, c)));
            maxima[c] = std::max(maxima[c], std::abs(double{weights(r, c)}));
        }
    }
    return maxima;
}

}  // namespace

std::vector<double> column_conductances(MatrixView<const float> weights, WeightScale scale, double g_max_us) {
    auto maxima = column_maxima(weights);
    if (maxima.empty()) return maxima;
    const double largest = *std::max_element(maxima.begin(), maxima.end());
    // A column of zeros has no largest weight; any conductance works.
    for (auto& m : maxima) {
        m = scale == WeightScale::column || m == 0.0 ? g_max_us : g_max_us * m / largest;
    }
    return maxima;
}

MappedWeights map_weights(MatrixView<const float> weights, std::span<const double> column_us) {
    assert(column_us.size() == weights.cols());
    const auto maxima = column_maxima(weights);
    MappedWeights out{{weights.rows(), weights.cols()}, {weights.rows(), weights.cols()}, {}};
    for (std::size_t c = 0; c < weights.cols(); ++c) {
        if (!std::isfinite(column_us[c]) || column_us[c] <= 0.0)
            fail(ErrorCode::bad_config,
                 fmt::format("conductance of column {}: {} uS; it must be > 0", c, column_us[c]));
        out.weight_per_us.push_back(maxima[c] / column_us[c]);
    }
    for (std::size_t r = 0; r < weights.rows(); ++r) {
        for (std::size_t c = 0; c < weights.cols(); ++c) {
            const float w = weights(r, c);
            if (w == 0.0F) continue;
            const auto g = static_cast<float>(std::abs(double{w}) / maxima[c] * column_us[c]);
            (w > 0.0F ? out.plus_us : out.minus_us)(r, c) = g;
        }
    }
    return out;
}

}  // namespace imka

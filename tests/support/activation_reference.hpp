// The ops of activation.hpp as plain loops in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace imka::ops::reference {

inline std::vector<double> gelu(std::span<const float> x) {
    std::vector<double> y;
    for (const double v : x) y.push_back(v * (1 + std::erf(v / std::sqrt(2.0))) / 2);
    return y;
}

inline std::vector<double> softmax(std::span<const float> x) {
    double most = -HUGE_VAL;
    for (const double v : x) most = std::max(most, v);
    std::vector<double> y;
    double sum = 0;
    for (const double v : x) sum += y.emplace_back(std::exp(v - most));
    for (auto& v : y) v /= sum;
    return y;
}

inline std::vector<double> layer_norm(std::span<const float> x, std::span<const float> scale,
                                      std::span<const float> bias, double epsilon) {
    double mean = 0;
    double variance = 0;
    const auto n = static_cast<double>(x.size());
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    std::vector<double> y;
    for (std::size_t i = 0; i < x.size(); ++i)
        y.push_back((x[i] - mean) / std::sqrt(variance + epsilon) * scale[i] + bias[i]);
    return y;
}

}  // namespace imka::ops::reference

// Sums over the coordinates of two points, in double and in a fixed order.
#pragma once

#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <span>

namespace imka {

// term(0) + ... + term(n - 1). Four partial sums hide the latency of the additions.
template <class Term>
double lane_sum(std::size_t n, Term term) {
    std::array<double, 4> lanes{};
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (std::size_t k = 0; k < 4; ++k) lanes[k] += term(i + k);
    }
    for (; i < n; ++i) lanes[i % 4] += term(i);
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

inline double squared_distance(std::span<const float> x, std::span<const float> y) {
    assert(x.size() == y.size());
    return lane_sum(x.size(), [&](std::size_t i) {
        const double difference = double{x[i]} - double{y[i]};
        return difference * difference;
    });
}

inline double dot(std::span<const float> x, std::span<const float> y) {
    assert(x.size() == y.size());
    return lane_sum(x.size(), [&](std::size_t i) { return double{x[i]} * double{y[i]}; });
}

}  // namespace imka

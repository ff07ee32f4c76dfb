#include "imka/metrics/medians.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

namespace imka {
namespace {

constexpr double kConfidence = 0.95;

std::vector<double> sorted(std::span<const double> values) {
    assert(!values.empty());
    std::vector<double> copy(values.begin(), values.end());
    std::sort(copy.begin(), copy.end());
    return copy;
}

double median_of_sorted(std::span<const double> values) {
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace

double median(std::span<const double> values) {
    return median_of_sorted(sorted(values));
}

MedianInterval median_interval(std::span<const double> values) {
    const auto v = sorted(values);
    const auto n = static_cast<double>(v.size());
    // P(fewer than k of n values are below the median) = sum over i < k of C(n, i) / 2^n: the one-sided
    // probability that the k-th smallest value is above the median.
    double term = std::exp2(-n);
    double missed = term;
    std::size_t k = 1;
    while (2 * (k + 1) <= v.size()) {
        const auto i = static_cast<double>(k);
        const double next = term * (n - i + 1.0) / i;
        if (1.0 - 2.0 * (missed + next) < kConfidence) break;
        term = next;
        missed += next;
        ++k;
    }
    return {.median = median_of_sorted(v),
            .low = v[k - 1],
            .high = v[v.size() - k],
            .confidence = 1.0 - 2.0 * missed};
}

}  // namespace imka

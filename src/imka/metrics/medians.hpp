// Medians with distribution-free confidence intervals, for times, whose errors are one-sided.
#pragma once

#include <span>

namespace imka {

// Needs at least one value. For an even number of values, the mean of the middle two.
double median(std::span<const double> values);

// The population median lies in [low, high] with at least this confidence: the narrowest symmetric pair of
// order statistics with 95 %. Fewer than six values cannot reach 95 %; then low and high are the minimum and
// maximum, with their confidence.
struct MedianInterval {
    double median = 0.0;
    double low = 0.0;
    double high = 0.0;
    double confidence = 0.0;
};
MedianInterval median_interval(std::span<const double> values);

}  // namespace imka

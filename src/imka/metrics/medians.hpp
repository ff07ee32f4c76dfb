// Medians and how sure they are, without a law for the values: for times, whose errors are one-sided.
#pragma once

#include <span>

namespace imka {

// At least one value. Of an even number, the mean of the two in the middle.
double median(std::span<const double> values);

// The median of what the values were drawn from lies in [low, high] with at least this confidence: order
// statistics, the narrowest symmetric pair that reaches 95 %. Fewer than six values cannot; then the smallest
// and the largest are given, with the confidence that they have.
struct MedianInterval {
    double median = 0.0;
    double low = 0.0;
    double high = 0.0;
    double confidence = 0.0;
};
MedianInterval median_interval(std::span<const double> values);

}  // namespace imka

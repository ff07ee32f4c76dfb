// The contract of readout.hpp as plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "imka/ops/readout/readout.hpp"

namespace imka::ops::reference {

inline float rounded(CountRounding rounding, float v) {
    if (rounding == CountRounding::round) return std::nearbyint(v);
    return rounding == CountRounding::floor ? std::floor(v) : v;
}

inline float noise(const Counter& counter, const ChargeRow& row, std::size_t i, float gain) {
    if (row.normals.empty()) return 0.0F;
    const float variance = row.variance.empty() ? 0.0F : (gain * gain) * row.variance[i];
    return std::sqrt(variance + counter.noise_variance) * row.normals[i];
}

inline StepSums quantize_row(const StepScale& scale, std::span<const float> x, std::span<float> steps) {
    StepSums sums;
    for (std::size_t i = 0; i < x.size(); ++i) {
        sums.finite = sums.finite && std::isfinite(x[i]);
        const double exact = std::clamp(double{x[i]} / scale.range, -1.0, 1.0) * scale.levels;
        const bool nearest = scale.rounding == StepRounding::nearest;
        const double step = (nearest ? std::nearbyint(exact) : std::trunc(exact)) + 0.0;
        steps[i] = static_cast<float>(step);
        (step > 0.0 ? sums.positive : sums.negative) += std::abs(step);
        (step > 0.0 ? sums.positive_squares : sums.negative_squares) += step * step;
    }
    return sums;
}

inline std::size_t add_counts(const Counter& counter, const ChargeRow& row, std::span<float> counts) {
    std::size_t saturated = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const float v = (row.charge[i] + row.offset[i]) + noise(counter, row, i, 1.0F);
        const float count = std::min(std::max(rounded(counter.rounding, v), 0.0F), counter.most);
        counts[i] += counter.weight * count;
        saturated += count >= counter.most ? 1 : 0;
    }
    return saturated;
}

inline std::size_t add_signed_counts(const Counter& counter, const ChargeRow& row,
                                     std::span<const float> negative_gain, std::span<float> counts) {
    std::size_t saturated = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const bool other = !negative_gain.empty() && row.charge[i] < 0.0F;
        const float gain = other ? negative_gain[i] : 1.0F;
        const float v = (gain * row.charge[i] + row.offset[i]) + noise(counter, row, i, gain);
        const float count = std::min(rounded(counter.rounding, std::abs(v)), counter.most);
        const float error = row.comparator.empty() ? 0.0F : counter.polarity_error * row.comparator[i];
        counts[i] += counter.weight * std::copysign(count, v + error);
        saturated += count >= counter.most ? 1 : 0;
    }
    return saturated;
}

inline std::size_t affine_row(const AffineRow& affine, std::span<const float> counts, std::span<float> out) {
    std::size_t at_limit = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const float c = affine.half ? static_cast<float>(to_half(counts[i])) : counts[i];
        float v = affine.scale[i] * c + affine.offset[i];
        if (affine.half) v = static_cast<float>(to_half(v));
        if (!affine.limit.empty()) {
            const float limit = affine.limit[i];
            at_limit += std::abs(v) >= limit ? 1 : 0;
            const float most = affine.soft_limit ? kSoftRange * limit : limit;
            v = std::clamp(v, -most, most);
            if (affine.soft_limit) v /= std::sqrt(1.0F + (v / limit) * (v / limit));
        }
        if (std::isfinite(affine.most)) {
            const float clipped = std::clamp(v, -affine.most, affine.most);
            v = (affine.floor ? std::floor(clipped) : std::nearbyint(clipped)) + 0.0F;
        }
        out[i] = affine.factor[i] * v;
    }
    return at_limit;
}

}  // namespace imka::ops::reference

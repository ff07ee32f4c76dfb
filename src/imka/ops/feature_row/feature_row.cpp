#include "imka/ops/feature_row/feature_row.hpp"

#include <cmath>
#include <numbers>

#include "imka/ops/epilogue/epilogue.hpp"

namespace imka::ops {

std::size_t features_per_direction(FeatureFunction function) {
    return function == FeatureFunction::cos_sin || function == FeatureFunction::exp_plus_minus ? 2 : 1;
}

void feature_row(const FeatureRow& row, std::span<const float> u, std::span<const float> offsets,
                 double norm2, std::span<float> z) {
    const double exponent = row.norm_exponent * norm2;
    const auto first = z.first(u.size());
    const auto second = z.subspan(z.size() - u.size());
    const auto scale = static_cast<float>(row.scale);
    switch (row.function) {
        case FeatureFunction::cos_sin:
            return cos_sin(u, static_cast<float>(row.scale * std::exp(exponent)), first, second);
        case FeatureFunction::offset_cos:
            return offset_cos(u, offsets, static_cast<float>(row.scale * std::numbers::sqrt2), first);
        case FeatureFunction::exp_plus_minus:
            return exp_plus_minus(u, static_cast<float>(exponent), scale, first, second);
        case FeatureFunction::step:
            return step_power(u, 0, scale, first);
        case FeatureFunction::relu:
            return step_power(u, 1, scale, first);
        case FeatureFunction::relu_squared:
            return step_power(u, 2, scale, first);
        case FeatureFunction::identity:
            for (std::size_t i = 0; i < u.size(); ++i) first[i] = scale * u[i];
            return;
    }
}

double squared_norm(std::span<const float> x) {
    double sum = 0.0;
    for (const float v : x) sum += double{v} * double{v};
    return sum;
}

}  // namespace imka::ops

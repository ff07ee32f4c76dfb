// The features of one row from its projections u = Ωx. Built from the functions of ops/epilogue.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "imka/base/names.hpp"

namespace imka::ops {

enum class FeatureFunction { cos_sin, offset_cos, exp_plus_minus, step, relu, relu_squared, identity };

struct FeatureRow {
    FeatureFunction function = FeatureFunction::cos_sin;
    double scale = 1.0;          // of every feature; offset_cos: times sqrt(2)
    double norm_exponent = 0.0;  // features are multiplied by exp(norm_exponent |x|²)
};

// Features per direction: 2 for cos_sin and exp_plus_minus, 1 otherwise.
std::size_t features_per_direction(FeatureFunction function);

// z has features_per_direction * u.size() values. offsets: for offset_cos. norm2: |x|², used if the exponent
// is not 0.
void feature_row(const FeatureRow& row, std::span<const float> u, std::span<const float> offsets,
                 double norm2, std::span<float> z);

// Sum of squares, in double.
double squared_norm(std::span<const float> x);

}  // namespace imka::ops

template <>
struct imka::EnumNames<imka::ops::FeatureFunction> {
    static constexpr std::string_view what = "feature function";
    static constexpr std::string_view values[] = {"cos_sin", "offset_cos",   "exp_plus_minus", "step",
                                                  "relu",    "relu_squared", "identity"};
};

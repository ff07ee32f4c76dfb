// The arc-cosine kernel of order 1: rectified linear units.
#include <cmath>
#include <numbers>

#include "imka/kernel/angle.hpp"
#include "imka/kernel/rows.hpp"

namespace imka {
namespace {

// In φ = π - θ: J1 = sin φ - φ cos φ.
double value(std::span<const float> x, std::span<const float> y, double) {
    const auto a = angle_between(x, y);
    if (has_zero(a)) return 0.0;
    const double j = std::sin(a.supplement) - a.supplement * std::cos(a.supplement);
    return a.norm_x * a.norm_y * j / std::numbers::pi;
}

FeatureLaw feature_law(double, std::size_t) {
    return {.law = Law::gaussian, .functions = Functions::relu, .prefactor = std::numbers::sqrt2};
}

}  // namespace

KernelRow arccos1_row() {
    return {.kernel = Kernel::arccos1,
            .formula = "|x||y| (sinθ+(π-θ)cosθ)/π; 0 where x or y is 0",
            .law_text = "N(0, I)",
            .shift_invariant = false,
            .uses_gamma = false,
            .value = value,
            .feature_law = feature_law};
}

}  // namespace imka

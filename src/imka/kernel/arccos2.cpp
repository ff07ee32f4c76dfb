// The arc-cosine kernel of order 2: squared rectified linear units.
#include <cmath>
#include <numbers>

#include "imka/kernel/angle.hpp"
#include "imka/kernel/rows.hpp"

namespace imka {
namespace {

// In φ = π - θ: J2 = φ (1 + 2 cos² φ) - 3 sin φ cos φ.
double value(std::span<const float> x, std::span<const float> y, double) {
    const auto a = angle_between(x, y);
    if (has_zero(a)) return 0.0;
    const double c = std::cos(a.supplement);
    const double j = a.supplement * (1.0 + 2.0 * c * c) - 3.0 * std::sin(a.supplement) * c;
    const double norms = a.norm_x * a.norm_y;
    return norms * norms * j / std::numbers::pi;
}

FeatureLaw feature_law(double, std::size_t) {
    return {.law = Law::gaussian, .functions = Functions::relu2, .prefactor = std::numbers::sqrt2};
}

}  // namespace

KernelRow arccos2_row() {
    return {.kernel = Kernel::arccos2,
            .formula = "(|x||y|)² (3 sinθ cosθ+(π-θ)(1+2cos²θ))/π; 0 where x or y is 0",
            .law_text = "N(0, I)",
            .shift_invariant = false,
            .uses_gamma = false,
            .value = value,
            .feature_law = feature_law};
}

}  // namespace imka

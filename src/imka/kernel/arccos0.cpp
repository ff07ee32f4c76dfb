// The arc-cosine kernel of order 0: steps.
#include <numbers>

#include "imka/kernel/angle.hpp"
#include "imka/kernel/rows.hpp"

namespace imka {
namespace {

double value(std::span<const float> x, std::span<const float> y, double) {
    return angle_between(x, y).supplement / std::numbers::pi;
}

FeatureLaw feature_law(double, std::size_t) {
    return {.law = Law::gaussian, .functions = Functions::step, .prefactor = std::numbers::sqrt2};
}

}  // namespace

KernelRow arccos0_row() {
    return {.kernel = Kernel::arccos0,
            .formula = "(π-θ)/π; 0 where x or y is 0",
            .law_text = "N(0, I)",
            .shift_invariant = false,
            .uses_gamma = false,
            .value = value,
            .feature_law = feature_law};
}

}  // namespace imka

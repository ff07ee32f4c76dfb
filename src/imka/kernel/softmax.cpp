// The softmax kernel of attention, with positive features.
#include <cmath>
#include <numbers>

#include "imka/kernel/rows.hpp"
#include "imka/kernel/sums.hpp"

namespace imka {
namespace {

double value(std::span<const float> x, std::span<const float> y, double) {
    return std::exp(dot(x, y) / std::sqrt(static_cast<double>(x.size())));
}

// exp(x'ᵀy') = exp(-|x'|²/2 - |y'|²/2) E[cosh(ωᵀ(x' + y'))], x' = d^(-1/4) x.
FeatureLaw feature_law(double, std::size_t d) {
    return {.law = Law::gaussian,
            .input_scale = 1.0 / std::sqrt(std::sqrt(static_cast<double>(d))),
            .functions = Functions::exp_pm,
            .prefactor = 1.0 / std::numbers::sqrt2,
            .norm_exponent = -0.5};
}

}  // namespace

KernelRow softmax_row() {
    return {.kernel = Kernel::softmax,
            .formula = "exp(xᵀy/sqrt(d))",
            .law_text = "N(0, I)",
            .shift_invariant = false,
            .uses_gamma = false,
            .value = value,
            .feature_law = feature_law};
}

}  // namespace imka

// The Matérn kernel with ν = 3/2 and the same length scale ℓ = 1/sqrt(2γ) as the Gaussian kernel.
#include <cmath>

#include "imka/kernel/rows.hpp"
#include "imka/kernel/sums.hpp"

namespace imka {
namespace {

double value(std::span<const float> x, std::span<const float> y, double gamma) {
    const double a = std::sqrt(3.0 * 2.0 * gamma * squared_distance(x, y));
    return (1.0 + a) * std::exp(-a);
}

FeatureLaw feature_law(double gamma, std::size_t) {
    return {.law = Law::student3, .omega_scale = std::sqrt(2.0 * gamma), .functions = Functions::cos_sin};
}

}  // namespace

KernelRow matern32_row() {
    return {.kernel = Kernel::matern32,
            .formula = "(1+a) exp(-a), a = sqrt(3)|x-y|/ℓ, ℓ = 1/sqrt(2γ)",
            .law_text = "sqrt(2γ) × multivariate t, 3 degrees of freedom",
            .shift_invariant = true,
            .uses_gamma = true,
            .value = value,
            .feature_law = feature_law};
}

}  // namespace imka

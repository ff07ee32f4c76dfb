// The Gaussian kernel.
#include <cmath>

#include "imka/kernel/rows.hpp"
#include "imka/kernel/sums.hpp"

namespace imka {
namespace {

double value(std::span<const float> x, std::span<const float> y, double gamma) {
    return std::exp(-gamma * squared_distance(x, y));
}

FeatureLaw feature_law(double gamma, std::size_t) {
    return {.law = Law::gaussian, .omega_scale = std::sqrt(2.0 * gamma), .functions = Functions::cos_sin};
}

}  // namespace

KernelRow rbf_row() {
    return {.kernel = Kernel::rbf,
            .formula = "exp(-γ|x-y|²)",
            .law_text = "sqrt(2γ) N(0, I)",
            .shift_invariant = true,
            .uses_gamma = true,
            .value = value,
            .feature_law = feature_law};
}

}  // namespace imka

// The Laplace kernel of the L1 distance. Its Fourier transform is a product over the coordinates, so ω is not
// radial.
#include <cmath>

#include "imka/kernel/rows.hpp"
#include "imka/kernel/sums.hpp"

namespace imka {
namespace {

double value(std::span<const float> x, std::span<const float> y, double gamma) {
    assert(x.size() == y.size());
    const double distance =
        lane_sum(x.size(), [&](std::size_t i) { return std::abs(double{x[i]} - double{y[i]}); });
    return std::exp(-gamma * distance);
}

FeatureLaw feature_law(double gamma, std::size_t) {
    return {.law = Law::cauchy, .omega_scale = gamma, .functions = Functions::cos_sin};
}

}  // namespace

KernelRow laplace_row() {
    return {.kernel = Kernel::laplace,
            .formula = "exp(-γ|x-y|₁)",
            .law_text = "γ × independent Cauchy entries",
            .shift_invariant = true,
            .uses_gamma = true,
            .value = value,
            .feature_law = feature_law};
}

}  // namespace imka

// The kernel of docs/howto/add_a_kernel.md, k(x, y) = exp(γ x·y), and a Monte Carlo check of its feature law.
#include <cmath>
#include <cstdio>
#include <numbers>
#include <span>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/kernel/kernel.hpp"

namespace {

using imka::FeatureLaw;
using imka::Functions;
using imka::Law;

double value(std::span<const float> x, std::span<const float> y, double gamma) {
    double dot = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) dot += double{x[i]} * double{y[i]};
    return std::exp(gamma * dot);
}

FeatureLaw feature_law(double gamma, std::size_t) {
    return {.law = Law::gaussian,
            .input_scale = std::sqrt(gamma),
            .functions = Functions::exp_pm,
            .prefactor = 1.0 / std::numbers::sqrt2,
            .norm_exponent = -0.5};
}

// Sum over the two feature functions of one direction, without the factor 1/m.
double features_product(const FeatureLaw& law, std::span<const float> omega, std::span<const float> x,
                        std::span<const float> y) {
    double u = 0.0;
    double v = 0.0;
    double norms2 = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double xs = law.input_scale * x[i];
        const double ys = law.input_scale * y[i];
        u += law.omega_scale * omega[i] * xs;
        v += law.omega_scale * omega[i] * ys;
        norms2 += xs * xs + ys * ys;
    }
    const double h2 = law.prefactor * law.prefactor * std::exp(law.norm_exponent * norms2);
    return h2 * (std::exp(u + v) + std::exp(-u - v));
}

}  // namespace

int main() {
    const std::vector<float> x = {0.3F, -1.2F, 0.8F};
    const std::vector<float> y = {0.1F, 0.4F, 1.1F};
    const double gamma = 0.5;
    const std::size_t m = 100'000;
    const auto law = feature_law(gamma, x.size());

    double sum = 0.0;
    double squares = 0.0;
    std::vector<float> omega(x.size());
    for (std::size_t i = 0; i < m; ++i) {
        imka::fill_normal(0, imka::Stream::omega_normal, i * omega.size(), omega);
        const double product = features_product(law, omega, x, y);
        sum += product;
        squares += product * product;
    }
    const double mean = sum / m;
    const double error = std::sqrt((squares / m - mean * mean) / m);
    const double exact = value(x, y, gamma);
    std::printf("exact %.4f, mean of %zu directions %.4f, standard error %.4f\n", exact, m, mean, error);
    return std::abs(mean - exact) < 5.0 * error ? 0 : 1;
}

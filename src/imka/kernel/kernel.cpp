// The kernels: exact values, feature laws and the registry; exact Gram matrices.
#include "imka/kernel/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/kernel/gram_gpu.hpp"

namespace imka {
namespace {

// term(0) + ... + term(n - 1) in double and in a fixed order. Four partial sums hide the latency of the
// additions.
template <class Term>
double lane_sum(std::size_t n, Term term) {
    std::array<double, 4> lanes{};
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (std::size_t k = 0; k < 4; ++k) lanes[k] += term(i + k);
    }
    for (; i < n; ++i) lanes[i % 4] += term(i);
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

double squared_distance(std::span<const float> x, std::span<const float> y) {
    assert(x.size() == y.size());
    return lane_sum(x.size(), [&](std::size_t i) {
        const double difference = double{x[i]} - double{y[i]};
        return difference * difference;
    });
}

double dot(std::span<const float> x, std::span<const float> y) {
    assert(x.size() == y.size());
    return lane_sum(x.size(), [&](std::size_t i) { return double{x[i]} * double{y[i]}; });
}

// Whether a point is zero: its features Θ(0) 0ⁿ are zero, so every arc-cosine kernel is 0.
bool has_zero(const Angle& a) {
    return a.norm_x == 0.0 || a.norm_y == 0.0;
}

double rbf(std::span<const float> x, std::span<const float> y, double gamma) {
    return std::exp(-gamma * squared_distance(x, y));
}

double laplace(std::span<const float> x, std::span<const float> y, double gamma) {
    assert(x.size() == y.size());
    const double distance =
        lane_sum(x.size(), [&](std::size_t i) { return std::abs(double{x[i]} - double{y[i]}); });
    return std::exp(-gamma * distance);
}

// The Matérn kernels have the same length scale ℓ = 1/sqrt(2γ) as the Gaussian kernel.
double matern32(std::span<const float> x, std::span<const float> y, double gamma) {
    const double a = std::sqrt(3.0 * 2.0 * gamma * squared_distance(x, y));
    return (1.0 + a) * std::exp(-a);
}

double matern52(std::span<const float> x, std::span<const float> y, double gamma) {
    const double a = std::sqrt(5.0 * 2.0 * gamma * squared_distance(x, y));
    return (1.0 + a + a * a / 3.0) * std::exp(-a);
}

// The arc-cosine kernels of order 0 (steps), 1 (rectified linear units) and 2 (their squares).
double arccos0(std::span<const float> x, std::span<const float> y, double) {
    return angle_between(x, y).supplement / std::numbers::pi;
}

// In φ = π - θ: J1 = sin φ - φ cos φ.
double arccos1(std::span<const float> x, std::span<const float> y, double) {
    const auto a = angle_between(x, y);
    if (has_zero(a)) return 0.0;
    const double j = std::sin(a.supplement) - a.supplement * std::cos(a.supplement);
    return a.norm_x * a.norm_y * j / std::numbers::pi;
}

// In φ = π - θ: J2 = φ (1 + 2 cos² φ) - 3 sin φ cos φ.
double arccos2(std::span<const float> x, std::span<const float> y, double) {
    const auto a = angle_between(x, y);
    if (has_zero(a)) return 0.0;
    const double c = std::cos(a.supplement);
    const double j = a.supplement * (1.0 + 2.0 * c * c) - 3.0 * std::sin(a.supplement) * c;
    const double norms = a.norm_x * a.norm_y;
    return norms * norms * j / std::numbers::pi;
}

// The kernel of attention.
double softmax(std::span<const float> x, std::span<const float> y, double) {
    return std::exp(dot(x, y) / std::sqrt(static_cast<double>(x.size())));
}

template <Law kLaw>
FeatureLaw radial_law(double gamma, std::size_t) {
    return {.law = kLaw, .omega_scale = std::sqrt(2.0 * gamma), .functions = Functions::cos_sin};
}

// The Fourier transform of the Laplace kernel is a product over the coordinates, so ω is not radial.
FeatureLaw laplace_law(double gamma, std::size_t) {
    return {.law = Law::cauchy, .omega_scale = gamma, .functions = Functions::cos_sin};
}

template <Functions kFunctions>
FeatureLaw arccos_law(double, std::size_t) {
    return {.law = Law::gaussian, .functions = kFunctions, .prefactor = std::numbers::sqrt2};
}

// exp(x'ᵀy') = exp(-|x'|²/2 - |y'|²/2) E[cosh(ωᵀ(x' + y'))], x' = d^(-1/4) x.
FeatureLaw softmax_law(double, std::size_t d) {
    return {.law = Law::gaussian,
            .input_scale = 1.0 / std::sqrt(std::sqrt(static_cast<double>(d))),
            .functions = Functions::exp_pm,
            .prefactor = 1.0 / std::numbers::sqrt2,
            .norm_exponent = -0.5};
}

// In the order of the enumerators.
constexpr std::array kRows = {
    KernelInfo{.kernel = Kernel::rbf,
               .formula = "exp(-γ|x-y|²)",
               .law_text = "sqrt(2γ) N(0, I)",
               .shift_invariant = true,
               .uses_gamma = true,
               .value = rbf,
               .feature_law = radial_law<Law::gaussian>},
    KernelInfo{.kernel = Kernel::laplace,
               .formula = "exp(-γ|x-y|₁)",
               .law_text = "γ × independent Cauchy entries",
               .shift_invariant = true,
               .uses_gamma = true,
               .value = laplace,
               .feature_law = laplace_law},
    KernelInfo{.kernel = Kernel::matern32,
               .formula = "(1+a) exp(-a), a = sqrt(3)|x-y|/ℓ, ℓ = 1/sqrt(2γ)",
               .law_text = "sqrt(2γ) × multivariate t, 3 degrees of freedom",
               .shift_invariant = true,
               .uses_gamma = true,
               .value = matern32,
               .feature_law = radial_law<Law::student3>},
    KernelInfo{.kernel = Kernel::matern52,
               .formula = "(1+a+a²/3) exp(-a), a = sqrt(5)|x-y|/ℓ, ℓ = 1/sqrt(2γ)",
               .law_text = "sqrt(2γ) × multivariate t, 5 degrees of freedom",
               .shift_invariant = true,
               .uses_gamma = true,
               .value = matern52,
               .feature_law = radial_law<Law::student5>},
    KernelInfo{.kernel = Kernel::arccos0,
               .formula = "(π-θ)/π; 0 where x or y is 0",
               .law_text = "N(0, I)",
               .value = arccos0,
               .feature_law = arccos_law<Functions::step>},
    KernelInfo{.kernel = Kernel::arccos1,
               .formula = "|x||y| (sinθ+(π-θ)cosθ)/π; 0 where x or y is 0",
               .law_text = "N(0, I)",
               .value = arccos1,
               .feature_law = arccos_law<Functions::relu>},
    KernelInfo{.kernel = Kernel::arccos2,
               .formula = "(|x||y|)² (3 sinθ cosθ+(π-θ)(1+2cos²θ))/π; 0 where x or y is 0",
               .law_text = "N(0, I)",
               .value = arccos2,
               .feature_law = arccos_law<Functions::relu2>},
    KernelInfo{.kernel = Kernel::softmax,
               .formula = "exp(xᵀy/sqrt(d))",
               .law_text = "N(0, I)",
               .value = softmax,
               .feature_law = softmax_law},
};

constexpr std::size_t kTileRows = 16;

void check_shapes(MatrixView<const float> x, MatrixView<const float> y, MatrixView<double> out) {
    if (x.cols() != y.cols()) {
        fail(ErrorCode::bad_usage,
             fmt::format("exact_gram: x has {} columns but y has {}", x.cols(), y.cols()));
    }
    if (out.rows() != x.rows() || out.cols() != y.rows()) {
        fail(ErrorCode::bad_usage, fmt::format("exact_gram: the result is {} x {}; it must be {} x {}",
                                               out.rows(), out.cols(), x.rows(), y.rows()));
    }
}

void check_gamma(const KernelInfo& row, double gamma) {
    if (row.uses_gamma && !(gamma > 0.0 && std::isfinite(gamma))) {
        fail(ErrorCode::bad_config, fmt::format("gamma: {} is out of range; it must be finite and > 0 for {}",
                                                gamma, to_string(row.kernel)));
    }
}

}  // namespace

Angle angle_between(std::span<const float> x, std::span<const float> y) {
    Angle a{.norm_x = std::sqrt(dot(x, x)), .norm_y = std::sqrt(dot(y, y))};
    if (has_zero(a)) return a;
    const auto length = [&](double sign) {
        return std::sqrt(lane_sum(x.size(), [&](std::size_t i) {
            const double v = double{x[i]} * a.norm_y + sign * (double{y[i]} * a.norm_x);
            return v * v;
        }));
    };
    a.supplement = 2.0 * std::atan2(length(1.0), length(-1.0));
    return a;
}

std::span<const KernelInfo> kernel_registry() {
    return kRows;
}

const KernelInfo& kernel_info(Kernel kernel) {
    const auto& row = kRows[static_cast<std::size_t>(kernel)];
    assert(row.kernel == kernel);
    return row;
}

void exact_gram(Kernel kernel, double gamma, MatrixView<const float> x, MatrixView<const float> y,
                const Exec& exec, MatrixView<double> out) {
    const auto& row = kernel_info(kernel);
    check_gamma(row, gamma);
    check_shapes(x, y, out);
    if (exec.device.kind == DeviceKind::cuda)
        return exact_gram_on_gpu(kernel, gamma, x, y, exec.device.number, out);
    const std::size_t tiles = (x.rows() + kTileRows - 1) / kTileRows;
    parallel_for(exec, tiles, [&](std::size_t tile) {
        const std::size_t end = std::min(x.rows(), (tile + 1) * kTileRows);
        for (std::size_t i = tile * kTileRows; i < end; ++i) {
            for (std::size_t j = 0; j < y.rows(); ++j) out(i, j) = row.value(x.row(i), y.row(j), gamma);
        }
    });
}

}  // namespace imka

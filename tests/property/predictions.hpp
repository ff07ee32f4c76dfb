// Exact expectations of the estimator for biased samplers, from quadrature, Bessel functions and enumeration
// of all sign patterns. Shares no code with the samplers.
#pragma once

#include <bit>
#include <map>
#include <numbers>
#include <optional>

#include "property/estimator.hpp"

struct Node {
    double value;
    double weight;
};
using Nodes = std::vector<Node>;

// A chi variable with n degrees of freedom, by the midpoint rule.
inline Nodes chi_nodes(double n, int count) {
    const double step = (std::sqrt(n) + 9.0) / count;
    Nodes nodes;
    double total = 0.0;
    for (int i = 0; i < count; ++i) {
        const double r = (i + 0.5) * step;
        nodes.push_back({r, std::exp((n - 1.0) * std::log(r) - r * r / 2.0)});
        total += nodes.back().weight;
    }
    for (auto& node : nodes) node.weight /= total;
    return nodes;
}

// Lengths of the rows of Ω before omega_scale: norm times mixing factor.
inline Nodes length_nodes(imka::Law law, imka::Norms norms, double n) {
    const Nodes norm = norms == imka::Norms::sqrt ? Nodes{{std::sqrt(n), 1.0}} : chi_nodes(n, 120);
    if (law == imka::Law::gaussian) return norm;
    const double nu = law == imka::Law::student3 ? 3.0 : 5.0;
    Nodes nodes;
    for (const auto& chi : chi_nodes(nu, 1500)) {
        for (const auto& r : norm)
            nodes.push_back({r.value * std::sqrt(nu) / chi.value, r.weight * chi.weight});
    }
    return nodes;
}

inline double norm_of_combination(const PointPair& pair, double sign) {
    double sum = 0.0;
    for (std::size_t j = 0; j < pair.x.size(); ++j)
        sum += std::pow(double{pair.x[j]} + sign * double{pair.y[j]}, 2);
    return std::sqrt(sum);
}

// Rows of fixed length in a uniform direction: E cos(s u) = Γ(d/2) (2/s)^(d/2-1) J_{d/2-1}(s) for one
// coordinate u of a uniform unit vector, and I for E exp(s u). d >= 2.
inline double orf_expectation(const imka::OmegaRecipe& recipe, const PointPair& pair) {
    const auto& row = imka::kernel_info(recipe.kernel);
    const auto d = static_cast<double>(recipe.d);
    const auto law = row.feature_law(recipe.gamma, pair.x.size());
    const double order = d / 2.0 - 1.0;
    double sum = 0.0;
    for (const auto& length : length_nodes(law.law, recipe.norms, d)) {
        const double s_minus = length.value * law.omega_scale * norm_of_combination(pair, -1.0);
        const double s_plus = length.value * law.input_scale * norm_of_combination(pair, 1.0);
        const double exact = row.value(pair.x, pair.y, recipe.gamma);
        const double moment2 = length.value * length.value / d;
        const auto bessel = [&](double s, double value) {
            return std::tgamma(d / 2.0) * std::pow(2.0 / s, order) * value;
        };
        switch (law.functions) {
            case imka::Functions::cos_sin:
                sum += length.weight * bessel(s_minus, std::cyl_bessel_j(order, s_minus));
                break;
            case imka::Functions::exp_pm:
                sum += length.weight * 2.0 * prefactors(law, pair) *
                       bessel(s_plus, std::cyl_bessel_i(order, s_plus));
                break;
            case imka::Functions::step:
                sum += length.weight * exact;
                break;
            case imka::Functions::relu:
                sum += length.weight * exact * moment2;
                break;
            case imka::Functions::relu2:  // E|ω|⁴ = d (d+2) for the Gaussian
                sum += length.weight * exact * moment2 * moment2 * d / (d + 2.0);
                break;
        }
    }
    return sum;
}

// Independent entries: normals conditioned on |g| <= t (rff), or clamped to ±t (a row of orf with chi norms
// is N(0, I) before clamping).
inline std::optional<double> truncated_expectation(const imka::OmegaRecipe& recipe, const PointPair& pair,
                                                   bool clamped) {
    const auto law = imka::kernel_info(recipe.kernel).feature_law(recipe.gamma, pair.x.size());
    const bool cosine = law.functions == imka::Functions::cos_sin;
    if (!cosine && law.functions != imka::Functions::exp_pm) return std::nullopt;
    const double t = recipe.truncation;
    const double inside = std::erf(t / std::numbers::sqrt2);
    double product = 1.0;
    for (std::size_t j = 0; j < pair.x.size(); ++j) {
        const double a = cosine ? law.omega_scale * (double{pair.x[j]} - double{pair.y[j]})
                                : law.input_scale * (double{pair.x[j]} + double{pair.y[j]});
        const auto f = [&](double g) { return cosine ? std::cos(a * g) : std::cosh(a * g); };
        constexpr int kSteps = 20000;
        const double step = 2.0 * t / kSteps;
        double integral = 0.0;
        for (int i = 0; i < kSteps; ++i) {
            const double g = -t + (i + 0.5) * step;
            integral += step * f(g) * std::exp(-g * g / 2.0) / std::sqrt(2.0 * std::numbers::pi);
        }
        product *= clamped ? integral + (1.0 - inside) * f(t) : integral / inside;
    }
    return cosine ? product : 2.0 * prefactors(law, pair) * product;
}

using IntMatrix = std::vector<std::vector<int>>;

inline IntMatrix hadamard(std::size_t n) {
    IntMatrix h(n, std::vector<int>(n));
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) h[i][j] = std::popcount(i & j) % 2 == 0 ? 1 : -1;
    }
    return h;
}

// a H D; the bits of `signs` are the diagonal.
inline IntMatrix times_h_d(const IntMatrix& a, const IntMatrix& h, unsigned signs) {
    IntMatrix out(a.size(), std::vector<int>(h.size(), 0));
    for (std::size_t i = 0; i < a.size(); ++i) {
        for (std::size_t j = 0; j < h.size(); ++j) {
            for (std::size_t k = 0; k < h.size(); ++k) out[i][j] += a[i][k] * h[k][j];
            if (((signs >> j) & 1U) != 0) out[i][j] = -out[i][j];
        }
    }
    return out;
}

// Every row of H D1 H D2 H D3 times n^(3/2), over all 2^(3n) sign patterns, with its frequency; n <= 4.
inline std::map<std::vector<int>, double> sorf_rows_by_enumeration(std::size_t n) {
    const auto h = hadamard(n);
    IntMatrix identity(n, std::vector<int>(n, 0));
    for (std::size_t i = 0; i < n; ++i) identity[i][i] = 1;
    std::map<std::vector<int>, double> rows;
    const unsigned patterns = 1U << n;
    const double share = 1.0 / (std::pow(patterns, 3) * static_cast<double>(n));
    for (unsigned s1 = 0; s1 < patterns; ++s1) {
        const auto first = times_h_d(identity, h, s1);
        for (unsigned s2 = 0; s2 < patterns; ++s2) {
            const auto second = times_h_d(first, h, s2);
            for (unsigned s3 = 0; s3 < patterns; ++s3) {
                for (const auto& row : times_h_d(second, h, s3)) rows[row] += share;
            }
        }
    }
    return rows;
}

// SORF with n <= 4, for any kernel, norms and truncation.
inline double sorf_expectation(const imka::OmegaRecipe& recipe, const PointPair& pair) {
    const auto law = imka::kernel_info(recipe.kernel).feature_law(recipe.gamma, pair.x.size());
    const std::size_t n = std::bit_ceil(pair.x.size());
    const double unit = std::pow(static_cast<double>(n), -1.5);
    static const auto rows = sorf_rows_by_enumeration(n);
    const auto lengths = length_nodes(law.law, recipe.norms, static_cast<double>(n));
    const double bound = recipe.truncation > 0.0 ? recipe.truncation * law.omega_scale : INFINITY;
    double sum = 0.0;
    std::vector<double> omega(n);
    for (const auto& [row, share] : rows) {
        for (const auto& length : lengths) {
            for (std::size_t j = 0; j < n; ++j)
                omega[j] = std::clamp(law.omega_scale * length.value * unit * row[j], -bound, bound);
            const std::span<const double> w(omega);
            sum += share * length.weight *
                   feature_product(law.functions, project(law, w, pair.x), project(law, w, pair.y));
        }
    }
    return prefactors(law, pair) * sum;
}

// SORF and rbf for n <= 8: the last diagonal averages to a product of cosines, so only D1 and D2 are
// enumerated. All rows have the same law (a row of H only relabels D1), so the first is enough.
inline double sorf_rbf_expectation(const imka::OmegaRecipe& recipe, const PointPair& pair) {
    const std::size_t n = std::bit_ceil(pair.x.size());
    const auto h = hadamard(n);
    const unsigned patterns = 1U << n;
    std::map<std::vector<int>, double> rows;
    for (unsigned s1 = 0; s1 < patterns; ++s1) {
        IntMatrix first(1, std::vector<int>(n));
        for (std::size_t j = 0; j < n; ++j) first[0][j] = ((s1 >> j) & 1U) != 0 ? -1 : 1;
        const auto mixed = times_h_d(first, h, 0);
        for (unsigned s2 = 0; s2 < patterns; ++s2) {
            auto flipped = mixed;
            for (std::size_t j = 0; j < n; ++j) flipped[0][j] *= ((s2 >> j) & 1U) != 0 ? -1 : 1;
            auto row = times_h_d(flipped, h, 0)[0];
            for (int& v : row) v = std::abs(v);
            rows[row] += 1.0 / (static_cast<double>(patterns) * patterns);
        }
    }
    const double scale = std::sqrt(2.0 * recipe.gamma) * std::pow(static_cast<double>(n), -1.5);
    double sum = 0.0;
    for (const auto& [row, share] : rows) {
        for (const auto& length : length_nodes(imka::Law::gaussian, recipe.norms, static_cast<double>(n))) {
            double product = share * length.weight;
            for (std::size_t j = 0; j < pair.x.size(); ++j)
                product *= std::cos(scale * length.value * row[j] * (double{pair.x[j]} - double{pair.y[j]}));
            sum += product;
        }
    }
    return sum;
}

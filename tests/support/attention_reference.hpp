// Attention by its formulas, in double: matrices of scores, no blocks, no rescaling except by one maximum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/ops/attention/form.hpp"

namespace imka::reference {

struct Attention {
    MatrixView<const float> q;
    MatrixView<const float> k;
    MatrixView<const float> v;
    std::span<const std::uint8_t> mask = {};
    bool causal = false;
    double scale = 1.0;
    bool uses(std::size_t i, std::size_t j) const {
        return (!causal || j <= i) && (mask.empty() || mask[j] != 0);
    }
};

// Rows of weights times v; rows that sum to 0 give 0.
inline Matrix<double> weighted(const Attention& a, const Matrix<double>& weights) {
    Matrix<double> out(a.q.rows(), a.v.cols());
    for (std::size_t i = 0; i < out.rows(); ++i) {
        double sum = 0.0;
        for (std::size_t j = 0; j < a.k.rows(); ++j) sum += weights(i, j);
        for (std::size_t j = 0; j < a.k.rows(); ++j) {
            if (!a.uses(i, j)) continue;
            for (std::size_t c = 0; c < out.cols(); ++c) out(i, c) += weights(i, j) / sum * a.v(j, c);
        }
    }
    return out;
}

inline Matrix<double> exact_attention(const Attention& a) {
    Matrix<double> weights(a.q.rows(), a.k.rows());
    for (std::size_t i = 0; i < a.q.rows(); ++i) {
        double most = -std::numeric_limits<double>::infinity();
        const auto score = [&](std::size_t j) {
            double sum = 0.0;
            for (std::size_t c = 0; c < a.q.cols(); ++c) sum += double{a.q(i, c)} * a.k(j, c);
            return a.scale * sum;
        };
        for (std::size_t j = 0; j < a.k.rows(); ++j) {
            if (a.uses(i, j)) most = std::max(most, score(j));
        }
        for (std::size_t j = 0; j < a.k.rows(); ++j)
            weights(i, j) = a.uses(i, j) ? std::exp(score(j) - most) : 0.0;
    }
    return weighted(a, weights);
}

// A feature is factor * exp(exponent). Features that are not exponentials have exponent 0.
struct Feature {
    double exponent;
    double factor;
};
inline std::vector<Feature> features(ops::AttentionForm form, std::span<const float> x,
                                     const Matrix<float>& omega, double scale) {
    double norm2 = 0.0;
    for (const float e : x) norm2 += scale * e * e;
    std::vector<Feature> first;
    std::vector<Feature> second;
    for (std::size_t i = 0; i < omega.rows(); ++i) {
        double u = 0.0;
        for (std::size_t c = 0; c < x.size(); ++c) u += std::sqrt(scale) * omega(i, c) * x[c];
        switch (form) {
            case ops::AttentionForm::positive:
                first.push_back({u - norm2 / 2, 1.0});
                second.push_back({-u - norm2 / 2, 1.0});
                break;
            case ops::AttentionForm::single:
                first.push_back({u - norm2 / 2, 1.0});
                break;
            case ops::AttentionForm::cos_sin:
                first.push_back({norm2 / 2, std::cos(u)});
                second.push_back({norm2 / 2, std::sin(u)});
                break;
            case ops::AttentionForm::exp:
                first.push_back({u, 1.0});
                break;
            case ops::AttentionForm::relu:
                first.push_back({0.0, std::max(u, 0.0)});
                break;
            case ops::AttentionForm::elu:
                first.push_back({0.0, u > 0.0 ? u + 1.0 : std::exp(u)});
                break;
            case ops::AttentionForm::square:
                first.push_back({0.0, u * u});
                break;
        }
    }
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

inline double largest(const std::vector<Feature>& z) {
    return std::ranges::max_element(z, {}, &Feature::exponent)->exponent;
}

// epsilon is relative to the largest feature of the query and to that of the keys that it uses.
inline Matrix<double> kernel_attention(const Attention& a, ops::AttentionForm form,
                                       const Matrix<float>& omega, double epsilon = 0.0) {
    const bool exponential = ops::attention_form(form).exponential;
    std::vector<std::vector<Feature>> keys(a.k.rows());
    for (std::size_t j = 0; j < a.k.rows(); ++j) {
        if (a.mask.empty() || a.mask[j] != 0) keys[j] = features(form, a.k.row(j), omega, a.scale);
    }
    Matrix<double> weights(a.q.rows(), a.k.rows());
    for (std::size_t i = 0; i < a.q.rows(); ++i) {
        const auto query = features(form, a.q.row(i), omega, a.scale);
        const double top = exponential ? largest(query) : 0.0;
        double most = exponential ? -std::numeric_limits<double>::infinity() : 0.0;
        for (std::size_t j = 0; exponential && j < a.k.rows(); ++j) {
            if (a.uses(i, j)) most = std::max(most, largest(keys[j]));
        }
        for (std::size_t j = 0; j < a.k.rows(); ++j) {
            if (!a.uses(i, j)) continue;
            for (std::size_t f = 0; f < query.size(); ++f) {
                const double zq = query[f].factor * std::exp(query[f].exponent - top) + epsilon;
                const double zk = keys[j][f].factor * std::exp(keys[j][f].exponent - most) + epsilon;
                weights(i, j) += zq * zk;
            }
        }
    }
    return weighted(a, weights);
}

}  // namespace imka::reference

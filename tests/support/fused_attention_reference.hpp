// Kernelised attention and its gradients by their formulas, in double: matrices of features and of weights.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/base/random.hpp"
#include "imka/ops/attention/fused.hpp"

namespace imka::reference {

struct FusedHead {
    ops::AttentionForm form = ops::AttentionForm::positive;
    double epsilon = 0.0;
    bool cut_gradient = false;
    std::size_t length = 0;
    Matrix<double> omega;  // m x d
    Matrix<double> q;      // tokens x d
    Matrix<double> k;
    Matrix<double> v;
};
struct FusedHeadGradients {
    Matrix<double> dq;
    Matrix<double> dk;
    Matrix<double> dv;
};

// Ωx' of each row.
inline Matrix<double> projections(const FusedHead& a, const Matrix<double>& x) {
    const double scale = std::pow(static_cast<double>(x.cols()), -0.25);
    Matrix<double> u(x.rows(), a.omega.rows());
    for (std::size_t i = 0; i < u.rows(); ++i)
        for (std::size_t j = 0; j < u.cols(); ++j)
            for (std::size_t c = 0; c < x.cols(); ++c) u(i, j) += scale * x(i, c) * a.omega(j, c);
    return u;
}

// Features of projections u of rows x: m per row, or 2 m with both signs.
inline Matrix<double> features(const FusedHead& a, const Matrix<double>& u, const Matrix<double>& x) {
    const std::size_t m = u.cols();
    const bool positive = a.form == ops::AttentionForm::positive;
    Matrix<double> f(x.rows(), positive ? 2 * m : m);
    for (std::size_t i = 0; i < f.rows(); ++i) {
        double norm = 0.0;
        for (std::size_t c = 0; c < x.cols(); ++c) norm += x(i, c) * x(i, c);
        norm /= 2.0 * std::sqrt(static_cast<double>(x.cols()));
        for (std::size_t j = 0; j < m; ++j) {
            if (positive) {
                f(i, j) = std::exp(u(i, j) - norm);
                f(i, m + j) = std::exp(-u(i, j) - norm);
            } else {
                f(i, j) = std::max(u(i, j), 0.0) + a.epsilon;
            }
        }
    }
    return f;
}

// weights(i, j): share of key j in the output of query i; 0 beyond the length.
inline Matrix<double> weights(const FusedHead& a, const Matrix<double>& fq, const Matrix<double>& fk) {
    Matrix<double> w(fq.rows(), fk.rows());
    for (std::size_t i = 0; i < a.length; ++i) {
        double sum = 0.0;
        for (std::size_t j = 0; j < a.length; ++j) {
            for (std::size_t f = 0; f < fq.cols(); ++f) w(i, j) += fq(i, f) * fk(j, f);
            sum += w(i, j);
        }
        for (std::size_t j = 0; j < a.length; ++j) w(i, j) /= sum;
    }
    return w;
}

// Outputs from given projections. With cut gradients, the projections count as constants.
inline Matrix<double> attend(const FusedHead& a, const Matrix<double>& uq, const Matrix<double>& uk) {
    const auto w = weights(a, features(a, uq, a.q), features(a, uk, a.k));
    Matrix<double> y(a.q.rows(), a.v.cols());
    for (std::size_t i = 0; i < a.length; ++i)
        for (std::size_t j = 0; j < a.length; ++j)
            for (std::size_t c = 0; c < y.cols(); ++c) y(i, c) += w(i, j) * a.v(j, c);
    return y;
}
inline Matrix<double> attend(const FusedHead& a) {
    return attend(a, projections(a, a.q), projections(a, a.k));
}

// Gradient of the rows x from that of their features.
inline Matrix<double> through_features(const FusedHead& a, const Matrix<double>& x,
                                       const Matrix<double>& df) {
    const auto u = projections(a, x);
    const auto f = features(a, u, x);
    const std::size_t m = u.cols();
    const double scale = std::pow(static_cast<double>(x.cols()), -0.25);
    Matrix<double> dx(x.rows(), x.cols());
    for (std::size_t i = 0; i < x.rows(); ++i) {
        for (std::size_t j = 0; j < m; ++j) {
            double du = 0.0;
            double exponent = 0.0;
            if (a.form == ops::AttentionForm::positive) {
                du = df(i, j) * f(i, j) - df(i, m + j) * f(i, m + j);
                exponent = df(i, j) * f(i, j) + df(i, m + j) * f(i, m + j);
            } else {
                du = u(i, j) > 0.0 ? df(i, j) : 0.0;
            }
            if (a.cut_gradient) du = 0.0;
            for (std::size_t c = 0; c < x.cols(); ++c)
                dx(i, c) += scale * du * a.omega(j, c) - scale * scale * exponent * x(i, c);
        }
    }
    return dx;
}

inline FusedHeadGradients differentiate(const FusedHead& a, const Matrix<double>& dy) {
    const auto fq = features(a, projections(a, a.q), a.q);
    const auto fk = features(a, projections(a, a.k), a.k);
    const auto w = weights(a, fq, fk);
    const auto y = attend(a);
    Matrix<double> dfq(fq.rows(), fq.cols());
    Matrix<double> dfk(fk.rows(), fk.cols());
    FusedHeadGradients out{{}, {}, Matrix<double>(a.v.rows(), a.v.cols())};
    for (std::size_t i = 0; i < a.length; ++i) {
        double normaliser = 0.0;
        for (std::size_t j = 0; j < a.length; ++j)
            for (std::size_t f = 0; f < fq.cols(); ++f) normaliser += fq(i, f) * fk(j, f);
        for (std::size_t j = 0; j < a.length; ++j) {
            double dw = 0.0;  // of the weight before it is normalised
            for (std::size_t c = 0; c < dy.cols(); ++c) {
                dw += dy(i, c) * (a.v(j, c) - y(i, c)) / normaliser;
                out.dv(j, c) += w(i, j) * dy(i, c);
            }
            for (std::size_t f = 0; f < fq.cols(); ++f) {
                dfq(i, f) += dw * fk(j, f);
                dfk(j, f) += dw * fq(i, f);
            }
        }
    }
    out.dq = through_features(a, a.q, dfq);
    out.dk = through_features(a, a.k, dfk);
    return out;
}

// Nearest bfloat16.
inline std::uint16_t to_bfloat(float x) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}
inline float from_bfloat(std::uint16_t x) {
    const std::uint32_t bits = std::uint32_t{x} << 16U;
    float out = 0.0F;
    std::memcpy(&out, &bits, sizeof(out));
    return out;
}

// Inputs of all heads in the layout of the GPU, rounded to the type of the elements.
struct FusedProblem {
    ops::FusedAttention shape;
    std::vector<float> qkv;  // q, k and v next to each other, then stride - 3 width unused
    std::vector<float> dy;
    std::vector<float> omega;
    std::vector<std::int32_t> lengths;
    std::size_t width() const { return static_cast<std::size_t>(shape.heads * shape.head_size); }
    std::size_t rows() const { return static_cast<std::size_t>(shape.batch * shape.tokens); }
};

// spread: standard deviation of q and k.
inline FusedProblem fused_problem(ops::FusedAttention shape, double spread,
                                  std::vector<std::int32_t> lengths) {
    FusedProblem p{.shape = shape, .lengths = std::move(lengths)};
    const auto stride = static_cast<std::size_t>(shape.stride);
    p.qkv.resize(p.rows() * stride);
    p.dy.resize(p.rows() * static_cast<std::size_t>(shape.out_stride));
    p.omega.resize(static_cast<std::size_t>(shape.directions * shape.head_size));
    fill_normal(31, Stream::test, 0, p.qkv);
    fill_normal(32, Stream::test, 0, p.dy);
    fill_normal(33, Stream::test, 0, p.omega);
    for (std::size_t i = 0; i < p.qkv.size(); ++i)
        if (i % stride < 2 * p.width()) p.qkv[i] *= static_cast<float>(spread);
    if (shape.type == ops::FusedType::bfloat16) {
        for (auto& v : p.qkv) v = from_bfloat(to_bfloat(v));
        for (auto& v : p.dy) v = from_bfloat(to_bfloat(v));
        // The GPU rounds Ω after scaling: these values are exact then.
        const bool powers = shape.form == ops::AttentionForm::positive;
        const double scale =
            (powers ? std::numbers::log2e : 1.0) / std::pow(static_cast<double>(shape.head_size), 0.25);
        for (auto& v : p.omega)
            v = static_cast<float>(from_bfloat(to_bfloat(static_cast<float>(scale * v))) / scale);
    }
    return p;
}

// Part 0, 1 or 2 (q, k or v) of a head, or of dy.
inline Matrix<double> head_part(const FusedProblem& p, const std::vector<float>& from, std::size_t head,
                                std::size_t part) {
    const auto heads = static_cast<std::size_t>(p.shape.heads);
    const auto tokens = static_cast<std::size_t>(p.shape.tokens);
    const auto d = static_cast<std::size_t>(p.shape.head_size);
    const auto stride = from.size() / p.rows();
    Matrix<double> out(tokens, d);
    for (std::size_t t = 0; t < tokens; ++t)
        for (std::size_t c = 0; c < d; ++c)
            out(t, c) = from[(head / heads * tokens + t) * stride + part * p.width() + head % heads * d + c];
    return out;
}

inline FusedHead fused_head(const FusedProblem& p, std::size_t head) {
    FusedHead a{.form = p.shape.form, .epsilon = p.shape.epsilon, .cut_gradient = p.shape.cut_gradient};
    a.length = static_cast<std::size_t>(
        p.lengths.empty() ? p.shape.tokens : p.lengths[head / static_cast<std::size_t>(p.shape.heads)]);
    a.omega = Matrix<double>(static_cast<std::size_t>(p.shape.directions),
                             static_cast<std::size_t>(p.shape.head_size));
    for (std::size_t i = 0; i < p.omega.size(); ++i) a.omega.values()[i] = p.omega[i];
    a.q = head_part(p, p.qkv, head, 0);
    a.k = head_part(p, p.qkv, head, 1);
    a.v = head_part(p, p.qkv, head, 2);
    return a;
}

}  // namespace imka::reference

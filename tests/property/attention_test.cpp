// Scores of kernelised attention, from the ops that attention runs: the forms that estimate the softmax
// kernel are unbiased where Ω has the exact law, and have the known bias for rows of fixed length.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "imka/attention/attention.hpp"
#include "imka/base/random.hpp"
#include "imka/ops/attention/head.hpp"
#include "support/moments.hpp"

namespace imka {
namespace {

using ops::AttentionForm;

constexpr std::size_t kDimension = 8;
constexpr std::uint64_t kDraws = 40000;

// A vector of the given norm.
Matrix<float> point(std::uint64_t seed, double norm) {
    Matrix<float> x(1, kDimension);
    double sum = 0.0;
    for (std::size_t i = 0; i < kDimension; ++i) {
        x(0, i) = static_cast<float>(normal(seed, Stream::test, i));
        sum += double{x(0, i)} * x(0, i);
    }
    for (auto& v : x.values()) v *= static_cast<float>(norm / std::sqrt(sum));
    return x;
}

double dot(const Matrix<float>& a, const Matrix<float>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.cols(); ++i) sum += double{a(0, i)} * b(0, i);
    return sum;
}

// One estimate of exp(qᵀk): φ(q)ᵀφ(k) / m without the common factors that attention cancels.
double estimate(AttentionForm form, const Matrix<float>& q, const Matrix<float>& k,
                const Matrix<float>& omega) {
    const auto directions = ops::directions_of(omega, 1.0);
    const ops::HeadRule rule{.features = {form, omega.rows(), 0.0F}, .directions = &directions};
    ops::QueryBlock queries;
    ops::KeyBlock keys;
    ops::make_query_block(rule, {q, {}}, queries);
    ops::make_key_block(rule, {k, {}}, k, {}, keys);
    ops::Panels score(1, 1);
    ops::multiply(queries.features, keys.features, score);
    const double query_norm = ops::attention_form(form).norm_exponent * dot(q, q);
    const double half = form == AttentionForm::positive ? 0.5 : 1.0;  // h² of two exponentials
    return half * score(0, 0) * std::exp(queries.maxima[0] + query_norm + keys.exponent) /
           static_cast<double>(omega.rows());
}

Moments estimates(AttentionForm form, const AttentionConfig& config, const Matrix<float>& q,
                  const Matrix<float>& k) {
    std::vector<double> values;
    for (std::uint64_t seed = 0; seed < kDraws * draws_factor(); ++seed)
        values.push_back(
            estimate(form, q, k, sample(omega_recipe(config, kDimension, {.seed = seed}), {.threads = 1})));
    return moments(values);
}

// n = 40,000 draws of m = d = 8 directions, |q'| = |k'| = 0.8; 5 standard errors. Prints the smallest
// relative bias that would be detected with probability 0.999, (5 + 3.09) standard errors over the kernel.
TEST(AttentionScores, AreUnbiasedForExactLaws) {
    const auto q = point(1, 0.8);
    const auto k = point(2, 0.8);
    const double exact = std::exp(dot(q, k));
    for (const auto form : {AttentionForm::positive, AttentionForm::single, AttentionForm::cos_sin}) {
        for (const auto sampler : {Sampler::rff, Sampler::orf}) {
            const AttentionConfig config{
                .form = form, .sampler = sampler, .norms = Norms::auto_, .n_directions = 8};
            const auto m = estimates(form, config, q, k);
            EXPECT_LE(std::abs(m.mean - exact), 5.0 * m.mean_error + 1e-6 * exact) << to_string(form);
            fmt::print("  {:<9}{:<5} kernel {:.4f} mean {:.4f} power {:.2f} %\n", to_string(form),
                       to_string(sampler), exact, m.mean, 100.0 * 8.09 * m.mean_error / exact);
        }
    }
}

// E exp(ωᵀs) for ω uniform on the sphere of radius sqrt(d): Σ (d |s|² / 4)^j / (j! (d/2)_j).
double sphere_mean(double norm2) {
    const double d = kDimension;
    double term = 1.0;
    double sum = 1.0;
    for (int j = 0; j < 60; ++j) {
        term *= d * norm2 / 4.0 / ((j + 1.0) * (d / 2.0 + j));
        sum += term;
    }
    return sum;
}

TEST(AttentionScores, HaveTheKnownBiasForRowsOfFixedLength) {
    for (const double norm : {0.4, 0.8, 1.2}) {
        const auto q = point(1, norm);
        const auto k = point(2, norm);
        const double exact = std::exp(dot(q, k));
        const double norms = dot(q, q) + dot(k, k);
        const double expected = sphere_mean(norms + 2.0 * dot(q, k)) * std::exp(-norms / 2.0);
        for (const auto form : {AttentionForm::positive, AttentionForm::single}) {
            const AttentionConfig config{
                .form = form, .sampler = Sampler::orf, .norms = Norms::sqrt, .n_directions = 8};
            const auto m = estimates(form, config, q, k);
            EXPECT_LE(std::abs(m.mean - expected), 5.0 * m.mean_error + 1e-6 * expected) << to_string(form);
            EXPECT_LT(expected, exact);
            fmt::print("  {:<9} |x'| {:.1f} bias {:+.2f} ± {:.2f} %, expected {:+.2f} %\n", to_string(form),
                       norm, 100.0 * (m.mean / exact - 1.0), 100.0 * m.mean_error / exact,
                       100.0 * (expected / exact - 1.0));
        }
    }
}

}  // namespace
}  // namespace imka

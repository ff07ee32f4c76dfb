// z(x)ᵀz(y) computed in double from the rows of Ω and the kernel's feature law; shares no code with
// features/.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/omega/omega.hpp"
#include "support/moments.hpp"

struct PointPair {
    std::vector<float> x;
    std::vector<float> y;
};

// Sum over the feature functions f of f(ux) f(uy).
inline double feature_product(imka::Functions functions, double ux, double uy) {
    const auto both = [&](double power) { return ux > 0.0 && uy > 0.0 ? std::pow(ux * uy, power) : 0.0; };
    switch (functions) {
        case imka::Functions::cos_sin:
            return std::cos(ux) * std::cos(uy) + std::sin(ux) * std::sin(uy);
        case imka::Functions::step:
            return both(0.0);
        case imka::Functions::relu:
            return both(1.0);
        case imka::Functions::relu2:
            return both(2.0);
        case imka::Functions::exp_pm:
            return std::exp(ux) * std::exp(uy) + std::exp(-ux) * std::exp(-uy);
    }
    return 0.0;
}

// h(x) h(y).
inline double prefactors(const imka::FeatureLaw& law, const PointPair& pair) {
    double squares = 0.0;
    for (const float v : pair.x) squares += double{v} * double{v};
    for (const float v : pair.y) squares += double{v} * double{v};
    return law.prefactor * law.prefactor *
           std::exp(law.norm_exponent * law.input_scale * law.input_scale * squares);
}

template <class T>
double project(const imka::FeatureLaw& law, std::span<T> omega, const std::vector<float>& x) {
    double u = 0.0;
    for (std::size_t j = 0; j < x.size(); ++j)
        u += static_cast<double>(omega[j]) * law.input_scale * double{x[j]};
    return u;
}

// The estimate of k(x, y) from the rows of omega.
inline double estimate(const imka::FeatureLaw& law, imka::MatrixView<const float> omega,
                       const PointPair& pair) {
    double sum = 0.0;
    for (std::size_t i = 0; i < omega.rows(); ++i) {
        sum += feature_product(law.functions, project(law, omega.row(i), pair.x),
                               project(law, omega.row(i), pair.y));
    }
    return prefactors(law, pair) * sum / static_cast<double>(omega.rows());
}

struct Draws {
    std::size_t rows = 1;  // rows of one Ω: a multiple of the sampler's block, so that draws are independent
    std::size_t per_seed = 1;  // number of Ω sliced from one recipe
    std::size_t seeds = 1;     // recipes, with seeds 1, 2, ...
};

// estimates[p][k]: the estimate of pair p from the k-th of seeds x per_seed independent Ω (times
// draws_factor()).
inline std::vector<std::vector<double>> draw_estimates(imka::OmegaRecipe recipe,
                                                       const std::vector<PointPair>& pairs,
                                                       const Draws& draws) {
    const auto law =
        imka::kernel_info(recipe.kernel).feature_law(recipe.gamma, static_cast<std::size_t>(recipe.d));
    std::vector<std::vector<double>> estimates(pairs.size());
    recipe.m = static_cast<std::int64_t>(draws.rows * draws.per_seed);
    for (recipe.seed = 1; recipe.seed <= draws.seeds * draws_factor(); ++recipe.seed) {
        const auto omega = imka::sample(recipe);
        for (std::size_t k = 0; k < draws.per_seed; ++k) {
            const auto rows = omega.view().slice_rows(k * draws.rows, draws.rows);
            for (std::size_t p = 0; p < pairs.size(); ++p)
                estimates[p].push_back(estimate(law, rows, pairs[p]));
        }
    }
    return estimates;
}

inline std::vector<float> random_point(std::size_t d, std::uint64_t index, double scale) {
    std::vector<float> x(d);
    imka::fill_normal(2024, imka::Stream::test, index * 4096, x);
    for (float& v : x) v = static_cast<float>(scale * double{v});
    return x;
}

// Two points with gamma |x-y|² = 1 in a random direction.
inline PointPair pair_at_one_over_e(std::size_t d, std::uint64_t index, double gamma) {
    PointPair pair{.x = random_point(d, 2 * index, 0.7), .y = random_point(d, 2 * index + 1, 1.0)};
    double length = 0.0;
    for (const float v : pair.y) length += double{v} * double{v};
    for (std::size_t j = 0; j < d; ++j)
        pair.y[j] = static_cast<float>(double{pair.x[j]} + double{pair.y[j]} / std::sqrt(length * gamma));
    return pair;
}

inline PointPair scaled(PointPair pair, double factor) {
    for (float& v : pair.x) v = static_cast<float>(factor * double{v});
    for (float& v : pair.y) v = static_cast<float>(factor * double{v});
    return pair;
}

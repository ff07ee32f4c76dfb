// z(x) compared with a naive evaluation from Ω, and reproducible bits.
#include "imka/features/feature_map.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

constexpr std::size_t kD = 5;

Matrix<float> inputs(std::size_t rows, std::size_t d, float scale = 1.0F) {
    Matrix<float> x(rows, d);
    for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = scale * normal(11, Stream::test, i);
    return x;
}

FeatureRecipe recipe_of(Kernel kernel, Sampler sampler, Form form = Form::auto_) {
    return {.omega = {.kernel = kernel, .gamma = 0.3, .sampler = sampler, .d = kD, .m = 12, .seed = 5},
            .form = form};
}

// z(x) from the definition, in double.
std::vector<double> naive(const FeatureRecipe& recipe, std::span<const float> x) {
    const auto omega = sample(recipe.omega);
    const auto kernel = recipe.omega.kernel;
    const auto m = omega.rows();
    const bool softmax = kernel == Kernel::softmax;
    const double input_scale = softmax ? std::pow(static_cast<double>(x.size()), -0.25) : 1.0;
    std::vector<double> first;
    std::vector<double> second;
    double norm2 = 0.0;
    for (const float v : x) norm2 += input_scale * v * input_scale * v;
    for (std::size_t i = 0; i < m; ++i) {
        double u = 0.0;
        for (std::size_t j = 0; j < x.size(); ++j) u += double{omega(i, j)} * input_scale * x[j];
        const double root = 1.0 / std::sqrt(static_cast<double>(m));
        if (kernel == Kernel::arccos0) {
            first.push_back(u > 0.0 ? std::numbers::sqrt2 * root : 0.0);
        } else if (kernel == Kernel::arccos1) {
            first.push_back(u > 0.0 ? std::numbers::sqrt2 * root * u : 0.0);
        } else if (kernel == Kernel::arccos2) {
            first.push_back(u > 0.0 ? std::numbers::sqrt2 * root * u * u : 0.0);
        } else if (softmax && recipe.form != Form::cos_sin) {
            first.push_back(root / std::numbers::sqrt2 * std::exp(u - norm2 / 2.0));
            second.push_back(root / std::numbers::sqrt2 * std::exp(-u - norm2 / 2.0));
        } else if (recipe.form == Form::offset_cos) {
            const double b = 2.0 * std::numbers::pi * uniform(recipe.omega.seed, Stream::feature_offset, i);
            first.push_back(std::numbers::sqrt2 * root * std::cos(u + b));
        } else {
            const double h = softmax ? std::exp(norm2 / 2.0) : 1.0;
            first.push_back(h * root * std::cos(u));
            second.push_back(h * root * std::sin(u));
        }
    }
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

void expect_naive(const FeatureRecipe& recipe) {
    const FeatureMap map(recipe);
    const auto x = inputs(3, kD);
    const auto z = map.transform(x.view(), Exec{});
    bool varied = false;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        const auto expected = naive(recipe, x.row(r));
        ASSERT_EQ(expected.size(), map.features());
        for (std::size_t c = 0; c < expected.size(); ++c) {
            // Projections of heavy-tailed laws reach thousands; their float rounding changes the angle.
            const double angle = recipe.omega.kernel == Kernel::laplace ? 1e-3 : 3e-6;
            ASSERT_NEAR(z(r, c), expected[c], angle * (1.0 + std::abs(expected[c])))
                << to_string(recipe.omega.kernel) << " " << to_string(recipe.omega.sampler) << " column "
                << c;
            varied = varied || z(r, c) != z(0, 0);
        }
    }
    EXPECT_TRUE(varied) << "constant features prove nothing";
}

TEST(FeatureMap, MatchesTheDefinitionForEveryKernelAndSampler) {
    for (const auto& row : kernel_registry()) {
        for (const auto sampler : {Sampler::rff, Sampler::orf, Sampler::sorf}) {
            if (combination(row.kernel, sampler, Norms::auto_).bias == Bias::refused) continue;
            expect_naive(recipe_of(row.kernel, sampler));
        }
    }
}

TEST(FeatureMap, SupportsTheOtherForms) {
    for (const auto kernel : {Kernel::rbf, Kernel::laplace, Kernel::matern32, Kernel::matern52}) {
        expect_naive(recipe_of(kernel, Sampler::rff, Form::offset_cos));
        EXPECT_EQ(functions_per_direction(kernel, Form::offset_cos), 1U);
    }
    expect_naive(recipe_of(Kernel::softmax, Sampler::orf, Form::cos_sin));
}

TEST(FeatureMap, RefusesFormsThatAKernelDoesNotHave) {
    EXPECT_THROW(functions_per_direction(Kernel::arccos0, Form::cos_sin), Error);
    EXPECT_THROW(functions_per_direction(Kernel::softmax, Form::offset_cos), Error);
    EXPECT_THROW(functions_per_direction(Kernel::rbf, Form::positive), Error);
}

TEST(FeatureMap, BitsDoNotDependOnThreadsOrBatches) {
    for (const auto kernel : {Kernel::rbf, Kernel::arccos1, Kernel::softmax}) {
        const FeatureMap map(
            {.omega = {.kernel = kernel, .sampler = Sampler::orf, .d = 13, .m = 101, .seed = 3}});
        const auto x = inputs(1000, 13, 0.5F);
        const auto whole = map.transform(x.view(), Exec{.threads = 1});
        for (const int threads : {2, 7}) EXPECT_EQ(whole, map.transform(x.view(), Exec{.threads = threads}));
        for (const std::size_t batch : {1U, 3U, 255U, 256U, 257U, 999U}) {
            Matrix<float> z(1000, map.features());
            for (std::size_t first = 0; first < 1000; first += batch) {
                const std::size_t count = std::min<std::size_t>(batch, 1000 - first);
                map.transform(x.view().slice_rows(first, count), {.first = first}, Exec{.threads = 2},
                              z.view().slice_rows(first, count));
            }
            ASSERT_EQ(whole, z) << "batch " << batch;
        }
    }
}

TEST(FeatureMap, ReportsTheNonFiniteRow) {
    const FeatureMap map(recipe_of(Kernel::rbf, Sampler::rff));
    auto x = inputs(300, kD);
    x(270, 3) = std::numeric_limits<float>::quiet_NaN();
    try {
        (void)map.transform(x.view(), Exec{});
        FAIL() << "accepted";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_data);
        EXPECT_STREQ(e.what(), "input row 270: feature 3 is not a finite number");
    }
}

TEST(FeatureMap, RefusesRowsOfAnotherWidthAndAbsurdSizes) {
    const FeatureMap map(recipe_of(Kernel::rbf, Sampler::rff));
    const auto x = inputs(3, kD + 1);
    EXPECT_THROW((void)map.transform(x.view(), Exec{}), Error);
    auto recipe = recipe_of(Kernel::rbf, Sampler::rff);
    recipe.omega.m = 0;
    EXPECT_THROW(FeatureMap{recipe}, Error);
    recipe.omega.m = std::int64_t{1} << 60;
    EXPECT_THROW(FeatureMap{recipe}, Error);
}

TEST(FeatureMap, StopsWhenCancelled) {
    const std::atomic<bool> cancel{true};
    const FeatureMap map(recipe_of(Kernel::rbf, Sampler::rff));
    const auto x = inputs(3, kD);
    EXPECT_THROW((void)map.transform(x.view(), Exec{.cancel = &cancel}), Error);
}

}  // namespace
}  // namespace imka

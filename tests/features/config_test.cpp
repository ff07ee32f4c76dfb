// From feature settings to a recipe, without a data set.
#include "imka/features/config.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

Matrix<float> some_inputs() {
    Matrix<float> x(50, 4);
    fill_normal(3, Stream::test, 0, x.values());
    for (auto& v : x.values()) v = 2.0F * v + 1.0F;
    return x;
}

TEST(FeatureConfig, FieldsKeepTheirOrder) {
    FeatureConfig config;
    std::vector<std::string> names;
    for (const auto& f : fields(config)) names.push_back(f.name);
    EXPECT_EQ(names, (std::vector<std::string>{"kernel", "gamma", "sampler", "norms", "form", "truncation",
                                               "n_components", "log_ratio"}));
}

TEST(FeatureConfig, GammaScaleIsOneOverTheVarianceOfAllEntries) {
    const auto x = some_inputs();
    FeatureConfig config{.gamma = {.value = std::nullopt}};
    double mean = 0.0;
    double squares = 0.0;
    for (const float v : x.values()) {
        mean += v / 200.0;
        squares += double{v} * v / 200.0;
    }
    const double expected = 1.0 / (4.0 * (squares - mean * mean));
    const auto whole = input_statistics(config, x.view());
    EXPECT_EQ(whole.d, 4);
    EXPECT_NEAR(resolve_gamma(config, whole), expected, 1e-9);
    // In blocks, as from a file.
    InputMoments moments;
    for (std::size_t r = 0; r < 50; r += 20)
        moments.add(x.view().slice_rows(r, std::min<std::size_t>(20, 50 - r)));
    EXPECT_EQ(moments.statistics().d, 4);
    EXPECT_NEAR(resolve_gamma(config, moments.statistics()), expected, 1e-9);

    config.gamma.value = 0.3;
    EXPECT_FALSE(input_statistics(config, x.view()).variance) << "not needed";
    EXPECT_EQ(resolve_gamma(config, {.d = 4}), 0.3);
}

TEST(FeatureConfig, RefusesScaleOfConstantInputs) {
    const FeatureConfig config{.gamma = {.value = std::nullopt}};
    const Matrix<float> x(3, 2);
    EXPECT_THROW((void)resolve_gamma(config, input_statistics(config, x.view())), Error);
    EXPECT_THROW((void)resolve_gamma(config, InputMoments().statistics()), Error);
}

TEST(FeatureConfig, AutoTruncationFollowsTheUse) {
    FeatureConfig config;
    EXPECT_EQ(resolve_truncation(config, {}), 0.0);
    EXPECT_EQ(resolve_truncation(config, {.on_chip = true}), 3.0);
    EXPECT_EQ(resolve_truncation(config, {.convention = Convention::measured}), 3.0);
    config.kernel = Kernel::laplace;
    EXPECT_EQ(resolve_truncation(config, {.on_chip = true}), 0.0)
        << "truncated tails would change the kernel";
    config.truncation = 2.0;
    EXPECT_EQ(resolve_truncation(config, {}), 2.0);
}

TEST(FeatureConfig, BecomesARecipe) {
    const FeatureConfig config{
        .kernel = Kernel::arccos0, .sampler = Sampler::sorf, .norms = Norms::chi, .log_ratio = 3.0};
    const auto recipe = resolve(config, {.convention = Convention::measured}, {.d = 10}, 7);
    EXPECT_EQ(recipe.omega.kernel, Kernel::arccos0);
    EXPECT_EQ(recipe.omega.sampler, Sampler::sorf);
    EXPECT_EQ(recipe.omega.norms, Norms::chi);
    EXPECT_EQ(recipe.omega.d, 10);
    EXPECT_EQ(recipe.omega.m, 77);
    EXPECT_EQ(recipe.omega.seed, 7U);
    EXPECT_EQ(recipe.omega.convention, Convention::measured);
    EXPECT_EQ(feature_sizes(config, {}, 10).m, 80);
    EXPECT_NO_THROW(validate(recipe));
}

}  // namespace
}  // namespace imka

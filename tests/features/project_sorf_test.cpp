// Projection by transforms compared with the product by Ω, and the choice between the two.
#include "imka/features/choose_projector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/omega/samplers.hpp"
#include "support/error.hpp"
#include "support/targets.hpp"

namespace imka {
namespace {

struct Shape {
    std::int64_t d, m;
};

OmegaRecipe sorf_recipe(Shape shape) {
    return {.sampler = Sampler::sorf, .d = shape.d, .m = shape.m, .seed = 7};
}

Matrix<float> random_tile(std::size_t d) {
    Matrix<float> x(kTileRows, d);
    fill_normal(3, Stream::test, 0, x.values());
    return x;
}

Matrix<float> project(const Projector& projector, const Matrix<float>& x) {
    Matrix<float> u(x.rows(), projector.outputs());
    projector.project(x.view(), {}, {.threads = 2}, u.view());
    return u;
}

double length(std::span<const float> v) {
    double sum = 0.0;
    for (const float e : v) sum += double{e} * double{e};
    return std::sqrt(sum);
}

// (3 L + 3) u |row| |x|: three transforms of L levels, the scale and its rounding, and the rounding of Ω
// itself; 1.001 covers the terms in u².
void expect_product(const OmegaRecipe& recipe, std::size_t rows) {
    const auto x = random_tile(static_cast<std::size_t>(recipe.d));
    const auto u = project(SorfProjector(recipe), x);
    const auto omega = sample(recipe);
    const std::size_t n = sorf_block_rows(recipe);
    const double units = 1.001 * 0x1p-24 * (3.0 * std::countr_zero(n) + 3.0);
    double largest = 0.0;
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < omega.rows(); ++i) {
            double want = 0.0;
            for (std::size_t j = 0; j < omega.cols(); ++j) want += double{omega(i, j)} * double{x(r, j)};
            const double row = sorf_scale(recipe, i) * std::sqrt(static_cast<double>(n));
            ASSERT_NEAR(u(r, i), want, units * row * length(x.row(r))) << "row " << r << " output " << i;
            largest = std::max(largest, std::abs(want));
        }
    }
    EXPECT_GT(largest, 0.0);
}

const std::vector<Shape> kShapes = {{1, 1},   {1, 300},   {2, 5},   {3, 11},     {8, 64},     {20, 100},
                                    {33, 70}, {100, 257}, {256, 3}, {257, 1100}, {1000, 1030}};

TEST(SorfProjector, MatchesTheProductByOmegaOnEveryInstructionSet) {
    for_each_instruction_set([] {
        for (const auto shape : kShapes) {
            for (const auto convention : {Convention::standard, Convention::measured}) {
                auto recipe = sorf_recipe(shape);
                recipe.convention = convention;
                SCOPED_TRACE(shape.d);
                expect_product(recipe, 3);
            }
        }
    });
}

TEST(SorfProjector, SupportsAnOmegaLargerThanMemory) {
    constexpr std::int64_t kSize = std::int64_t{1} << 20;  // four terabytes
    const auto recipe = sorf_recipe({kSize, kSize});
    EXPECT_THAT(error_of([&] { sample(recipe); }), testing::HasSubstr("Ω of 1048576 x 1048576 values needs"));
    const auto projector = choose_projector(recipe);
    Matrix<float> x(1, kSize);
    fill_normal(3, Stream::test, 0, x.values());
    const auto u = project(*projector, x);
    Matrix<float> omega(1, kSize);
    for (const std::int64_t i : {std::int64_t{0}, std::int64_t{777}, kSize - 1}) {
        sample_rows(recipe, i, omega.view());
        double want = 0.0;
        for (std::size_t j = 0; j < omega.cols(); ++j) want += double{omega(0, j)} * double{x(0, j)};
        const double units = 1.001 * 0x1p-24 * (3.0 * 20.0 + 3.0);
        EXPECT_NEAR(u(0, static_cast<std::size_t>(i)), want, units * length(omega.row(0)) * length(x.row(0)));
        EXPECT_GT(std::abs(want), 0.0);
    }
}

TEST(SorfProjector, RefusesDiagonalsLargerThanMemory) {
    EXPECT_THAT(error_of([] {
                    choose_projector(sorf_recipe({std::int64_t{1} << 20, std::int64_t{1} << 50}));
                }),
                testing::HasSubstr("the diagonals of the transforms of 4 x 1125899906842624 values needs"));
}

TEST(SorfProjector, SupportsEveryKernelNormAndConvention) {
    for (const auto kernel : {Kernel::rbf, Kernel::matern32, Kernel::matern52, Kernel::arccos0,
                              Kernel::arccos1, Kernel::arccos2, Kernel::softmax}) {
        for (const auto norms : {Norms::sqrt, Norms::chi}) {
            for (const auto convention : {Convention::standard, Convention::measured}) {
                for (const Shape shape : {Shape{1, 9}, Shape{12, 40}, Shape{70, 300}}) {
                    auto recipe = sorf_recipe(shape);
                    recipe.kernel = kernel;
                    recipe.norms = norms;
                    recipe.convention = convention;
                    SCOPED_TRACE(to_string(kernel));
                    expect_product(recipe, 2);
                }
            }
        }
    }
}

TEST(SorfProjector, HasTheSameBitsOnEveryInstructionSet) {
    for (const Shape shape : {Shape{22, 704}, Shape{200, 300}, Shape{600, 1500}, Shape{5000, 8200}}) {
        const SorfProjector projector(sorf_recipe(shape));
        const auto x = random_tile(static_cast<std::size_t>(shape.d));
        const auto want = project(projector, x);
        for_each_instruction_set([&] { EXPECT_TRUE(project(projector, x) == want) << shape.d; });
    }
}

TEST(SorfProjector, BitsOfARowDoNotDependOnItsPosition) {
    for (const Shape shape : {Shape{20, 100}, Shape{300, 700}, Shape{9000, 100}}) {
        const SorfProjector projector(sorf_recipe(shape));
        auto x = random_tile(static_cast<std::size_t>(shape.d));
        const auto before = project(projector, x);
        std::swap_ranges(x.row(2).begin(), x.row(2).end(), x.row(255).begin());
        const auto after = project(projector, x);
        EXPECT_TRUE(std::equal(before.row(2).begin(), before.row(2).end(), after.row(255).begin()));
        EXPECT_TRUE(std::equal(before.row(7).begin(), before.row(7).end(), after.row(7).begin()));
    }
}

// Unscaled transforms would multiply intermediate values by n^(3/2) = 2^18.
TEST(SorfProjector, LargeInputsDoNotOverflow) {
    auto recipe = sorf_recipe({4096, 4096});
    recipe.gamma = 1e-6;
    Matrix<float> x(kTileRows, 4096);
    for (std::size_t j = 0; j < 4096; ++j) x(0, j) = j % 3 == 0 ? 1e34F : -2e34F;
    const auto u = project(SorfProjector(recipe), x);
    for (const float v : u.row(0)) ASSERT_TRUE(std::isfinite(v));
}

TEST(SorfProjector, RefusesRecipesWithoutTheStructure) {
    auto recipe = sorf_recipe({8, 8});
    recipe.truncation = 2.0;
    EXPECT_FALSE(has_sorf_structure(recipe));
    EXPECT_THROW(SorfProjector{recipe}, Error);
    recipe.convention = Convention::measured;
    EXPECT_TRUE(has_sorf_structure(recipe));
    expect_product(recipe, 1);
    recipe.sampler = Sampler::orf;
    EXPECT_THROW(SorfProjector{recipe}, Error);
}

bool is_structured(const Projector& projector) {
    return dynamic_cast<const SorfProjector*>(&projector) != nullptr;
}

TEST(ChooseProjector, UsesTransformsIfMuchCheaper) {
    EXPECT_TRUE(is_structured(*choose_projector(sorf_recipe({512, 4096}))));
    EXPECT_TRUE(is_structured(*choose_projector(sorf_recipe({64, 256}))));
    EXPECT_FALSE(is_structured(*choose_projector(sorf_recipe({8, 4096}))));
    EXPECT_FALSE(is_structured(*choose_projector(sorf_recipe({64, 10}))));
    for (const auto sampler : {Sampler::rff, Sampler::orf}) {
        auto recipe = sorf_recipe({512, 512});
        recipe.sampler = sampler;
        EXPECT_FALSE(is_structured(*choose_projector(recipe)));
        EXPECT_EQ(projection_cost(recipe).structured, std::numeric_limits<double>::infinity());
    }
}

TEST(ChooseProjector, FitRecoversTheConstantsOfCosts) {
    const ProjectionConstants want{
        .dense_fixed = 0.3, .dense_input = 0.01, .structured_fixed = 0.2, .structured_level = 0.07};
    std::vector<ProjectionTiming> timings;
    for (const Shape shape : {Shape{3, 64}, Shape{16, 300}, Shape{100, 1000}, Shape{4096, 4096}}) {
        const auto recipe = sorf_recipe(shape);
        timings.push_back({.recipe = recipe, .cost = projection_cost(recipe, want)});
    }
    const auto got = fit_projection_constants(timings);
    EXPECT_NEAR(got.dense_fixed, want.dense_fixed, 1e-10);
    EXPECT_NEAR(got.dense_input, want.dense_input, 1e-10);
    EXPECT_NEAR(got.structured_fixed, want.structured_fixed, 1e-10);
    EXPECT_NEAR(got.structured_level, want.structured_level, 1e-10);
}

TEST(ChooseProjector, ClampedEntriesNeedTheMatrix) {
    auto recipe = sorf_recipe({128, 512});
    recipe.truncation = 1.0;
    EXPECT_FALSE(is_structured(*choose_projector(recipe)));
    recipe.convention = Convention::measured;
    EXPECT_TRUE(is_structured(*choose_projector(recipe)));
}

TEST(ChooseProjector, UsesAGivenOmegaAsItIs) {
    const auto recipe = sorf_recipe({128, 512});
    auto omega = sample(recipe);
    const auto x = random_tile(128);
    const auto same = choose_projector(recipe, omega);
    EXPECT_TRUE(is_structured(*same));
    EXPECT_TRUE(project(*same, x) == project(*choose_projector(recipe), x));
    omega(3, 5) += 1.0F;
    const auto changed = choose_projector(recipe, omega);
    EXPECT_FALSE(is_structured(*changed));
    EXPECT_TRUE(project(*changed, x) == project(DigitalProjector(omega), x));
}

}  // namespace
}  // namespace imka

// Features on a GPU against a product in double and against the processor, for every kernel and sampler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <thread>
#include <vector>

#include "cuda/devices.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/features/project_chip.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Matrix<float> inputs(std::size_t rows, std::size_t cols, float size = 1.0F) {
    Matrix<float> x(rows, cols);
    fill_normal(11, Stream::test, 0, x.values());
    for (auto& v : x.values()) v *= size;
    return x;
}

double norm(std::span<const float> v) {
    return std::sqrt(ops::squared_norm(v));
}

// One map: a kernel, a sampler, a form and sizes.
struct Case {
    Kernel kernel;
    Sampler sampler;
    Form form;
    std::int64_t d;
    std::int64_t m;
};

FeatureRecipe recipe_of(const Case& c) {
    return {.omega = {.kernel = c.kernel, .gamma = 0.3, .sampler = c.sampler, .d = c.d, .m = c.m, .seed = 7},
            .form = c.form};
}

std::vector<Case> feature_cases() {
    std::vector<Case> list;
    const std::pair<std::int64_t, std::int64_t> sizes[] = {{1, 1},   {3, 130}, {22, 704},
                                                           {33, 65}, {40, 96}, {100, 257}};
    for (const auto& row : kernel_registry()) {
        for (const auto sampler : {Sampler::rff, Sampler::orf, Sampler::sorf}) {
            for (const auto form : {Form::auto_, Form::cos_sin, Form::offset_cos, Form::positive}) {
                for (const auto& [d, m] : sizes) {
                    const Case c{row.kernel, sampler, form, d, m};
                    if (error_of([&] { validate(recipe_of(c)); }) == "no error") list.push_back(c);
                }
            }
        }
    }
    // Around the longest short row, large d, and transforms of every size.
    for (const std::int64_t d : {32, 64, 65, 128, 1000, 1025, 2000})
        list.push_back({Kernel::rbf, Sampler::rff, Form::cos_sin, d, 300});
    for (const std::int64_t d : {2, 4, 7, 16, 40, 64, 128, 200, 400, 700, 1024, 1500})
        list.push_back({Kernel::rbf, Sampler::sorf, Form::cos_sin, d, 2 * d + 3});
    return list;
}

std::string name_of(const Case& c) {
    return std::string(to_string(c.kernel)) + "_" + std::string(to_string(c.sampler)) + "_" +
           std::string(to_string(c.form)) + "_" + std::to_string(c.d) + "_" + std::to_string(c.m);
}

// Bound on the error of a projection (ops/feature_row/gpu_features.hpp), plus that of the processor's float
// product.
double projection_bound(const Case& c, double lengths, ops::GpuPrecision precision) {
    const double steps = std::ceil(static_cast<double>(c.d) / 16.0);
    double bound = (steps + 4.0) * std::ldexp(1.0, -20);
    if (precision == ops::GpuPrecision::tf32) bound += std::ldexp(1.0, -10);
    return bound * lengths;
}

// Largest slope of a feature in its projection near u, without the scale.
double slope(const FeatureFunctions& functions, double u, double extra) {
    switch (functions.row.function) {
        case ops::FeatureFunction::relu:
            return 1.0;
        case ops::FeatureFunction::relu_squared:
            return 2.0 * std::abs(u);
        case ops::FeatureFunction::exp_plus_minus:
            return std::exp(std::abs(u) + extra);
        default:
            return 1.0;
    }
}

class Features : public testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    }
};

// Features of `rows` rows on the GPU, `stride` apart, with options.
Matrix<float> on_gpu(const FeatureMap& map, const Matrix<float>& x, const GpuFeatureOptions& options,
                     std::size_t padding = 0) {
    const std::size_t stride = map.features() + padding;
    cuda::Buffer<float> in(0, x.values());
    cuda::Buffer<float> out(0, std::vector<float>(x.rows() * stride, -7.0F));
    map.on_gpu(0).transform({.x = in.data(), .z = out.data(), .rows = x.rows(), .stride = stride}, {},
                            options, {});
    Matrix<float> z(x.rows(), stride);
    out.download(z.values());
    return z;
}

// Compares features with those of the product in double.
void expect_close(const Case& c, const Matrix<float>& x, const Matrix<float>& z,
                  ops::GpuPrecision precision) {
    const auto recipe = recipe_of(c);
    const auto omega = sample(recipe.omega);
    const auto functions = feature_functions(recipe);
    const auto m = static_cast<std::size_t>(c.m);
    const double omega_scale =
        kernel_info(c.kernel).feature_law(recipe.omega.gamma, static_cast<std::size_t>(c.d)).omega_scale;
    const bool structured =
        has_sorf_structure(recipe.omega) && projection_cost(recipe.omega).gain() >= kLeastGain;
    std::size_t flips = 0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        std::vector<float> scaled(x.row(r).begin(), x.row(r).end());
        for (auto& v : scaled) v *= functions.input_scale;
        const double norm2 = ops::squared_norm(scaled);
        for (std::size_t i = 0; i < m; ++i) {
            double u = 0.0;
            for (std::size_t k = 0; k < scaled.size(); ++k) u += double{omega(i, k)} * double{scaled[k]};
            const float single[] = {static_cast<float>(u)};
            const double lengths = norm(omega.row(i)) * norm(scaled);
            double bound = projection_bound(c, lengths, precision);
            if (structured) {
                // The rounding of three transforms; |row| is the norm over all n entries.
                const double n = std::exp2(std::ceil(std::log2(static_cast<double>(c.d))));
                const double row = norm(omega.row(i)) * std::sqrt(n / static_cast<double>(c.d));
                const double dense = n <= 1024.0 ? 0.0 : bound;  // larger blocks are dense on a GPU
                bound = dense + (3.0 * std::log2(n) + 6.0) * std::ldexp(1.0, -24) * norm(scaled) * 4.0 *
                                    std::max(row, omega_scale * std::sqrt(n));
            }
            std::vector<float> expected(ops::features_per_direction(functions.row.function));
            ops::feature_row(functions.row, single,
                             functions.offsets.empty() ? std::span<const float>{}
                                                       : std::span(functions.offsets).subspan(i, 1),
                             norm2, expected);
            for (std::size_t f = 0; f < expected.size(); ++f) {
                const double got = z(r, f * m + i);
                const double difference = std::abs(got - double{expected[f]});
                if (functions.row.function == ops::FeatureFunction::step) {
                    // A step may flip where the size of the projection is within its error bound.
                    if (difference == 0.0) continue;
                    ++flips;
                    ASSERT_LE(std::abs(u), bound) << "row " << r << ", feature " << i;
                    continue;
                }
                const double extra = functions.row.norm_exponent * norm2;
                double scale = functions.row.scale * std::numbers::sqrt2;
                if (functions.row.function == ops::FeatureFunction::cos_sin) scale *= std::exp(extra);
                const double tolerance =
                    scale * (slope(functions, std::abs(u) + bound, extra) * (bound + std::abs(u) * 1.2e-7) +
                             2.5e-7) +
                    4e-7 * std::abs(double{expected[f]});
                ASSERT_LE(difference, tolerance) << "row " << r << ", feature " << f * m + i << ": " << got
                                                 << " instead of " << expected[f];
            }
        }
    }
    EXPECT_LE(flips, x.rows() * m / 20 + 1);
}

TEST_P(Features, AreThoseOfAProductInDouble) {
    const auto& c = GetParam();
    const FeatureMap map(recipe_of(c));
    const auto x = inputs(131, static_cast<std::size_t>(c.d));  // a whole tile of rows and a partial one
    const auto z = on_gpu(map, x, {});
    expect_close(c, x, z, ops::GpuPrecision::float32);
}

TEST_P(Features, InTf32AreWithinTheirBound) {
    const auto& c = GetParam();
    const FeatureMap map(recipe_of(c));
    const auto x = inputs(50, static_cast<std::size_t>(c.d));
    expect_close(c, x, on_gpu(map, x, {.precision = ops::GpuPrecision::tf32}), ops::GpuPrecision::tf32);
}

TEST_P(Features, HaveTheSameBitsInEveryBatchStrideAndRun) {
    const auto& c = GetParam();
    const FeatureMap map(recipe_of(c));
    const auto x = inputs(300, static_cast<std::size_t>(c.d));
    const auto whole = on_gpu(map, x, {});
    EXPECT_EQ(whole, on_gpu(map, x, {})) << "another run";
    const auto padded = on_gpu(map, x, {}, 5);
    const auto in_blocks = map.transform(x.view(), {}, kGpu);
    EXPECT_EQ(whole, in_blocks);
    for (std::size_t r = 0; r < x.rows(); ++r) {
        ASSERT_TRUE(std::equal(whole.row(r).begin(), whole.row(r).end(), padded.row(r).begin())) << r;
        for (std::size_t p = 0; p < 5; ++p)
            ASSERT_EQ(padded(r, map.features() + p), -7.0F) << "written beyond " << r;
    }
    for (const std::size_t rows : {1U, 7U, 129U}) {
        Matrix<float> part(rows, x.cols());
        std::copy_n(x.values().begin(), part.values().size(), part.values().begin());
        const auto z = on_gpu(map, part, {});
        ASSERT_TRUE(std::equal(z.values().begin(), z.values().end(), whole.values().begin())) << rows;
    }
}

TEST_P(Features, AreRoundedToTf32) {
    const auto& c = GetParam();
    const FeatureMap map(recipe_of(c));
    const auto x = inputs(20, static_cast<std::size_t>(c.d));
    const auto exact = on_gpu(map, x, {});
    const auto rounded = on_gpu(map, x, {.round_to_tf32 = true});
    for (std::size_t i = 0; i < exact.values().size(); ++i) {
        const float v = rounded.values()[i];
        ASSERT_EQ(std::bit_cast<std::uint32_t>(v) & 0x1fffU, 0U);
        ASSERT_LE(std::abs(v - exact.values()[i]), std::ldexp(std::abs(exact.values()[i]), -11));
    }
}

INSTANTIATE_TEST_SUITE_P(Maps, Features, testing::ValuesIn(feature_cases()),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(FeaturesOnGpu, OfTransformsHaveTheProjectionsOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    // Rectified linear units show the projection itself.
    for (const std::int64_t d : {2, 5, 16, 31, 33, 100, 500, 1000}) {
        const Case c{Kernel::arccos1, Sampler::sorf, Form::auto_, d, 3 * d + 1};
        const auto recipe = recipe_of(c);
        const FeatureMap map(recipe, std::make_unique<SorfProjector>(recipe.omega));
        const auto x = inputs(70, static_cast<std::size_t>(d));
        EXPECT_EQ(map.transform(x.view(), {}), map.transform(x.view(), kGpu)) << d;
    }
}

TEST(FeaturesOnGpu, OfLargeAnglesAndValuesAreAccurate) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    // One input of 1: the projections are the entries of Ω, each represented by two halves.
    Matrix<float> omega(9, 1);
    const float angles[] = {0.0F, 1e-30F, 0.75F, 12799.0F, 12801.0F, 1e6F, -3e8F, 0x1.8p66F, -1e-3F};
    std::ranges::copy(angles, omega.values().begin());
    const FeatureRecipe recipe{.omega = {.sampler = Sampler::rff, .d = 1, .m = 9}};
    const FeatureMap map(recipe, std::make_unique<DigitalProjector>(omega));
    Matrix<float> x(1, 1);
    x(0, 0) = 1.0F;
    const auto z = map.transform(x.view(), kGpu);
    for (std::size_t i = 0; i < 9; ++i) {
        EXPECT_NEAR(3.0 * z(0, i), std::cos(double{angles[i]}), 3e-7) << angles[i];
        EXPECT_NEAR(3.0 * z(0, 9 + i), std::sin(double{angles[i]}), 3e-7) << angles[i];
    }
}

TEST(FeaturesOnGpu, OfRowsOfAnySizeAreThoseOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const Case c{Kernel::arccos1, Sampler::rff, Form::auto_, 12, 40};
    const FeatureMap map(recipe_of(c));
    for (const float size : {1e-30F, 1e-6F, 1e6F, 1e30F}) {
        const auto x = inputs(9, 12, size);
        const auto expected = map.transform(x.view(), {});
        const auto got = map.transform(x.view(), kGpu);
        const float most = *std::ranges::max_element(expected.values());
        for (std::size_t i = 0; i < got.values().size(); ++i)
            ASSERT_NEAR(got.values()[i] / most, expected.values()[i] / most, 1e-5) << size;
    }
    const Matrix<float> zero(3, 12);
    const auto z = map.transform(zero.view(), kGpu);
    for (const float v : z.values()) EXPECT_EQ(v, 0.0F);
}

TEST(FeaturesOnGpu, OfManyRowsAreThoseOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    // More tiles than blocks: few directions of short rows, with writes of single values and of whole tiles,
    // many directions, long rows.
    struct Sizes {
        std::size_t rows;
        std::int64_t d;
        std::int64_t m;
    };
    for (const auto& [rows, d, m] : {Sizes{300'000, 7, 33}, Sizes{100'003, 22, 100}, Sizes{100'003, 50, 72},
                                     Sizes{20'003, 40, 1500}, Sizes{5003, 70, 1201}}) {
        const FeatureMap map(recipe_of({Kernel::arccos1, Sampler::rff, Form::auto_, d, m}));
        const auto x = inputs(rows, static_cast<std::size_t>(d));
        const auto expected = map.transform(x.view(), {});
        const auto got = on_gpu(map, x, {});
        const float most = *std::ranges::max_element(expected.values());
        for (std::size_t i = 0; i < got.values().size(); ++i)
            ASSERT_NEAR(got.values()[i] / most, expected.values()[i] / most, 1e-5) << "d " << d << ", " << i;
    }
}

TEST(FeaturesOnGpu, RefuseInputsThatAreNotFinite) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    for (const auto& c : {Case{Kernel::rbf, Sampler::rff, Form::auto_, 50, 300},
                          Case{Kernel::rbf, Sampler::rff, Form::auto_, 100, 300},
                          Case{Kernel::rbf, Sampler::sorf, Form::auto_, 100, 300}}) {
        const FeatureMap map(recipe_of(c));
        auto x = inputs(600, static_cast<std::size_t>(c.d));
        x(517, 42) = std::numeric_limits<float>::quiet_NaN();
        x(590, 3) = std::numeric_limits<float>::infinity();
        const auto expected =
            error_of([&] { (void)map.transform(x.view(), {.seed = 0, .first = 1000}, {}); });
        EXPECT_THAT(expected, HasSubstr("input row 1517: feature 42 is not a finite number"));
        EXPECT_EQ(error_of([&] { (void)map.transform(x.view(), {.seed = 0, .first = 1000}, kGpu); }),
                  expected);
    }
}

TEST(FeaturesOnGpu, OfThreadsAtTheSameTimeAreTheSame) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto x = inputs(5000, 22);
    const FeatureMap shared(recipe_of({Kernel::rbf, Sampler::orf, Form::auto_, 22, 500}));
    const auto expected = shared.transform(x.view(), kGpu);
    std::vector<int> wrong(6, 0);
    {
        std::vector<std::jthread> threads;
        for (int& of_thread : wrong) {
            threads.emplace_back([&shared, &x, &expected, &of_thread] {
                for (int i = 0; i < 5; ++i) {
                    const FeatureMap own(shared.recipe());
                    of_thread += own.transform(x.view(), kGpu) == expected ? 0 : 1;
                    of_thread += shared.transform(x.view(), kGpu) == expected ? 0 : 1;
                }
            });
        }
    }
    EXPECT_EQ(wrong, std::vector<int>(6, 0));
}

TEST(FeaturesOnGpu, OfAChipAreThoseOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    for (const auto kernel : {Kernel::rbf, Kernel::arccos0, Kernel::softmax}) {
        const auto recipe = recipe_of({kernel, Sampler::orf, Form::auto_, 16, 100});
        const auto omega = sample(recipe.omega);
        const auto x = inputs(700, 16);
        const auto chip = chip_preset("hermes");
        const BuildConfig config;
        const ProjectionJob job{
            .chip = chip, .omega = omega, .inputs = x.view(), .config = config, .seed = 3};
        const auto expected = chip_feature_map(recipe, job, {}).map.transform(x.view(), {.seed = 5}, {});
        const auto got = chip_feature_map(recipe, job, kGpu).map.transform(x.view(), {.seed = 5}, kGpu);
        std::size_t different = 0;
        for (std::size_t i = 0; i < got.values().size(); ++i) {
            const float size = std::max(std::abs(expected.values()[i]), 1e-3F);
            if (std::abs(got.values()[i] - expected.values()[i]) > 1e-5F * size) ++different;
        }
        // A result of the chip may differ by a step of its converters (ADR 27).
        EXPECT_LE(different, got.values().size() / 500) << to_string(kernel);
    }
}

TEST(FeaturesOnGpu, WithoutAGpuSayWhatToDo) {
    const FeatureMap map(recipe_of({Kernel::rbf, Sampler::rff, Form::auto_, 3, 4}));
    const auto x = inputs(2, 3);
    Exec exec;
    exec.device = {DeviceKind::cuda, static_cast<int>(cuda::gpus().size())};
    EXPECT_THAT(error_of([&] { (void)map.transform(x.view(), exec); }),
                testing::StartsWith("missing_part: "));
}

}  // namespace
}  // namespace imka

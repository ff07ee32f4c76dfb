// Ridge fits, predictions and Gram matrices on a GPU against the processor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "cuda/devices.hpp"
#include "imka/base/random.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/linear_algebra.hpp"
#include "imka/cuda/resident.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/kernel/kernel.hpp"
#include "imka/learn/ridge_gpu.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/metrics/metrics.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Matrix<float> inputs(std::size_t rows, std::size_t cols) {
    Matrix<float> x(rows, cols);
    fill_normal(12, Stream::test, 0, x.values());
    return x;
}

FeatureRecipe recipe(Kernel kernel, std::int64_t d, std::int64_t m) {
    return {.omega = {.kernel = kernel, .gamma = 0.1, .sampler = Sampler::orf, .d = d, .m = m, .seed = 3}};
}

// A function of the rows with a large mean, which 11 bits could not hold.
Matrix<float> targets(const Matrix<float>& x) {
    Matrix<float> y(x.rows(), 2);
    for (std::size_t r = 0; r < x.rows(); ++r) {
        y(r, 0) = 5000.0F + std::sin(x(r, 0)) + x(r, 1) * x(r, 2);
        y(r, 1) = std::cos(x(r, 1) - x(r, 0));
    }
    return y;
}

class GpuRidge : public testing::Test {
protected:
    void SetUp() override {
        if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
        if (!cuda::linear_algebra_obstacle().empty()) GTEST_SKIP() << cuda::linear_algebra_obstacle();
    }
};

TEST_F(GpuRidge, LinearAlgebraMultipliesAndSolves) {
    auto& algebra = cuda::LinearAlgebra::of_this_thread(0);
    // c = a bᵀ, column-major: a is 2 x 3, b is 2 x 3.
    const std::vector<double> a = {1, 2, 3, 4, 5, 6};
    const std::vector<double> b = {1, 0, 0, 1, 1, 1};
    const cuda::Buffer<double> left(0, a);
    const cuda::Buffer<double> right(0, b);
    const cuda::Buffer<double> product(0, 4);
    algebra.multiply(cuda::Product<double>{.rows = 2,
                                           .cols = 2,
                                           .inner = 3,
                                           .a = left.data(),
                                           .a_stride = 2,
                                           .b = right.data(),
                                           .b_stride = 2,
                                           .c = product.data(),
                                           .c_stride = 2});
    std::vector<double> c(4);
    product.download(c);
    EXPECT_EQ(c, (std::vector<double>{1 + 5, 2 + 6, 3 + 5, 4 + 6}));
    const cuda::Buffer<double> matrix(0, std::vector<double>{4, 2, 0, 3});  // lower triangle of [4 2; 2 3]
    const cuda::Buffer<double> rhs(0, std::vector<double>{8, 7});
    EXPECT_EQ(algebra.solve(matrix.data(), 2, rhs.data(), 1), 0U);
    std::vector<double> x(2);
    rhs.download(x);
    EXPECT_NEAR(x[0], 1.25, 1e-14);
    EXPECT_NEAR(x[1], 1.5, 1e-14);
    const cuda::Buffer<double> indefinite(0, std::vector<double>{1, 2, 2, 1});
    EXPECT_EQ(algebra.solve(indefinite.data(), 2, rhs.data(), 1), 2U);
}

// The weights minimise the penalised loss. Predictions are compared, since weights of similar features are
// not well determined.
TEST_F(GpuRidge, PredictsAsTheProcessorDoes) {
    for (const auto intercept : {Intercept::penalized, Intercept::free, Intercept::none}) {
        for (const auto kernel : {Kernel::rbf, Kernel::arccos1, Kernel::arccos0}) {
            // Whole blocks of rows and a partial one; a prime number of directions.
            const auto x = inputs(2 * GpuRidgeSums::kRows + 1001, 7);
            const auto y = targets(x);
            const RidgeFit fit{.recipe = recipe(kernel, 7, 151),
                               .ridge = {.alpha = 0.5, .intercept = intercept}};
            const auto expected = fit_regressor(fit, x.view(), y.view(), {});
            const auto got = fit_regressor(fit, x.view(), y.view(), kGpu);
            const auto few = x.view().slice_rows(0, 3001);
            Matrix<double> cpu(few.rows(), 2);
            Matrix<double> gpu(few.rows(), 2);
            Matrix<double> mixed(few.rows(), 2);
            RidgePredictor(expected).scores(few, 0, {}, cpu.view());
            RidgePredictor(got).scores(few, 0, kGpu, gpu.view());
            RidgePredictor(expected).scores(few, 0, kGpu, mixed.view());
            for (std::size_t k = 0; k < 2; ++k) {
                double spread = 0.0;
                double difference = 0.0;
                double prediction = 0.0;
                for (std::size_t r = 0; r < few.rows(); ++r) {
                    spread += std::pow(cpu(r, k), 2);
                    difference += std::pow(cpu(r, k) - gpu(r, k), 2);
                    prediction = std::max(prediction, std::abs(cpu(r, k) - mixed(r, k)));
                }
                // Features have 11 bits, but many of them are averaged.
                EXPECT_LE(std::sqrt(difference / spread), 1e-3)
                    << to_string(kernel) << " " << to_string(intercept);
                if (kernel == Kernel::arccos0) continue;  // single steps flip
                EXPECT_LE(prediction, 2e-4 * std::sqrt(spread / static_cast<double>(few.rows())));
            }
        }
    }
}

TEST_F(GpuRidge, ClassifiesAsTheProcessorDoes) {
    const auto x = inputs(12000, 5);
    std::vector<std::int32_t> y;
    for (std::size_t r = 0; r < x.rows(); ++r)
        y.push_back(x(r, 0) * x(r, 1) > 0.3F ? 2 : x(r, 2) > x(r, 3) ? 1 : 0);
    const RidgeFit fit{.recipe = recipe(Kernel::rbf, 5, 200)};
    const auto cpu = fit_classifier(fit, x.view(), y, {"a", "b", "c"}, {});
    const auto gpu = fit_classifier(fit, x.view(), y, {"a", "b", "c"}, kGpu);
    const auto expected = RidgePredictor(cpu).classify(x.view(), {});
    const auto got = RidgePredictor(gpu).classify(x.view(), kGpu);
    const auto same = count_right(expected, got);
    EXPECT_GE(same, x.rows() * 998 / 1000);
    EXPECT_NEAR(accuracy(y, got), accuracy(y, expected), 2e-3);
    EXPECT_GT(accuracy(y, got), 0.8);
}

TEST_F(GpuRidge, HasTheSameBitsInEveryRunThreadAndBatch) {
    const auto x = inputs(20000, 6);
    const auto y = targets(x);
    const RidgeFit fit{.recipe = recipe(Kernel::rbf, 6, 300)};
    const auto expected = fit_regressor(fit, x.view(), y.view(), kGpu);
    Matrix<double> whole(x.rows(), 2);
    RidgePredictor(expected).scores(x.view(), 0, kGpu, whole.view());
    Matrix<double> parts(x.rows(), 2);
    const RidgePredictor predictor(expected);
    for (std::size_t first = 0; first < x.rows(); first += 777) {
        const auto count = std::min<std::size_t>(777, x.rows() - first);
        predictor.scores(x.view().slice_rows(first, count), first, kGpu,
                         parts.view().slice_rows(first, count));
    }
    EXPECT_EQ(whole, parts);
    std::vector<int> wrong(4, 0);
    {
        std::vector<std::jthread> threads;
        for (auto& count : wrong) {
            threads.emplace_back([&] {
                for (int i = 0; i < 3; ++i)
                    count +=
                        fit_regressor(fit, x.view(), y.view(), kGpu).weights.w == expected.weights.w ? 0 : 1;
            });
        }
    }
    EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST_F(GpuRidge, HasTheSameBitsWithRowsThatAreOnTheGpuAlready) {
    const auto x = inputs(20000, 6);
    const auto y = targets(x);
    const RidgeFit fit{.recipe = recipe(Kernel::rbf, 6, 300)};
    const cuda::ResidentRows resident({x.view()}, 0);
    Exec there = kGpu;
    there.resident = &resident;
    const auto expected = fit_regressor(fit, x.view(), y.view(), kGpu);
    const auto got = fit_regressor(fit, x.view(), y.view(), there);
    EXPECT_EQ(got.weights.w, expected.weights.w);
    EXPECT_EQ(got.weights.intercept, expected.weights.intercept);
    const auto part = x.view().slice_rows(1234, 5000);
    EXPECT_EQ(cuda::find_resident(there, part),
              cuda::find_resident(there, x.view()) + std::ptrdiff_t{1234} * 6);
    Matrix<double> a(part.rows(), 2);
    Matrix<double> b(part.rows(), 2);
    RidgePredictor(expected).scores(part, 0, kGpu, a.view());
    RidgePredictor(expected).scores(part, 0, there, b.view());
    EXPECT_EQ(a, b);
}

TEST_F(GpuRidge, OfFewRowsIsSolvedByTheDual) {
    const auto x = inputs(40, 4);
    const auto y = targets(x);
    const RidgeFit fit{.recipe = recipe(Kernel::rbf, 4, 100)};
    const auto got = fit_regressor(fit, x.view(), y.view(), kGpu);
    EXPECT_EQ(got.solver, Solver::dual);
    const auto expected = fit_regressor(fit, x.view(), y.view(), {});
    for (std::size_t i = 0; i < expected.weights.w.values().size(); ++i)
        EXPECT_NEAR(got.weights.w.values()[i], expected.weights.w.values()[i], 0.02);
}

TEST_F(GpuRidge, RefusesSystemsThatAreNotPositiveDefinite) {
    // Zero rows: all features are zero.
    const Matrix<float> x(500, 3);
    const Matrix<float> y(500, 1);
    RidgeFit fit{.recipe = recipe(Kernel::arccos1, 3, 10), .ridge = {.alpha = 0.0}};
    EXPECT_THAT(error_of([&] { fit_regressor(fit, x.view(), y.view(), kGpu); }),
                StartsWith("numeric: the ridge system is not positive definite"));
    fit.ridge.alpha = 1.0;
    EXPECT_EQ(error_of([&] { fit_regressor(fit, x.view(), y.view(), kGpu); }), "no error")
        << "the GPU still works";
}

TEST_F(GpuRidge, SaysHowMuchMemoryIsMissing) {
    const auto most = cuda::gpus()[0].memory_bytes;
    const auto features = static_cast<std::size_t>(std::sqrt(static_cast<double>(most) / 4.0));
    EXPECT_THAT(error_of([&] { GpuRidgeSums(features, 1, 0); }), HasSubstr("cuda:0 is out of memory"));
    EXPECT_EQ(error_of([&] { GpuRidgeSums(100, 1, 0); }), "no error") << "the GPU still works";
}

TEST_F(GpuRidge, GramErrorsAreThoseOfTheProcessor) {
    const auto x = inputs(333, 8);
    for (const auto kernel : {Kernel::rbf, Kernel::softmax}) {
        const FeatureMap map(recipe(kernel, 8, 100));
        auto other_recipe = map.recipe();
        other_recipe.omega.seed = 4;
        const FeatureMap other(other_recipe);
        Matrix<double> exact(x.rows(), x.rows());
        exact_gram(kernel, 0.1, x.view(), x.view(), {}, exact.view());
        const auto z = map.transform(x.view(), {});
        const auto z2 = other.transform(x.view(), {});
        const double expected = gram_error(exact.view(), z.view(), {});
        EXPECT_NEAR(gram_error(exact.view(), z.view(), kGpu), expected, 1e-12 * expected);
        const double mean = gram_error(exact.view(), z.view(), z2.view(), {});
        EXPECT_NEAR(gram_error(exact.view(), z.view(), z2.view(), kGpu), mean, 1e-12 * mean);
    }
}

class GpuGram : public testing::TestWithParam<Kernel> {};

TEST_P(GpuGram, IsThatOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    for (const std::size_t d : {1U, 2U, 3U, 4U, 5U, 22U, 101U}) {
        auto x = inputs(37, d);
        std::ranges::fill(x.row(5), 0.0F);
        std::ranges::copy(x.row(7), x.row(8).begin());
        const auto y = inputs(300, d);
        for (const Matrix<float>* right : std::initializer_list<const Matrix<float>*>{&x, &y}) {
            Matrix<double> expected(x.rows(), right->rows());
            Matrix<double> got(x.rows(), right->rows());
            exact_gram(GetParam(), 0.2, x.view(), right->view(), {}, expected.view());
            exact_gram(GetParam(), 0.2, x.view(), right->view(), kGpu, got.view());
            for (std::size_t i = 0; i < got.values().size(); ++i) {
                const double value = expected.values()[i];
                ASSERT_NEAR(got.values()[i], value, 1e-13 * std::max(1.0, std::abs(value))) << d << " " << i;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GpuGram, testing::ValuesIn([] {
                             std::vector<Kernel> kernels;
                             for (const auto& row : kernel_registry()) kernels.push_back(row.kernel);
                             return kernels;
                         }()),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

// Runs, started as in a sweep, digitally and on a chip.
TEST_F(GpuRidge, RunsOfSweepsHaveTheAccuracyOfTheProcessor) {
    RunConfig config;
    config.dataset = "ringnorm";
    config.gram_rows = 500;
    config.features.log_ratio = 3;
    config.seeds = {0, 1};
    const auto data = load_dataset(config.dataset, load_options(config, {}), {});
    for (const auto* backend : {"fp32", "hermes"}) {
        config.backend.name = backend;
        const auto cpu = run_seeds("ridge", config, data, {});
        const auto gpu = run_seeds("ridge", config, data, kGpu);
        EXPECT_NEAR(gpu.values.at("accuracy").mean, cpu.values.at("accuracy").mean, 3e-3) << backend;
        EXPECT_NEAR(gpu.values.at("gram_error").mean / cpu.values.at("gram_error").mean, 1.0, 1e-3)
            << backend;
        EXPECT_EQ(run_seeds("ridge", config, data, kGpu).values.at("accuracy").mean,
                  gpu.values.at("accuracy").mean)
            << "another run";
    }
}

}  // namespace
}  // namespace imka

// Ridge fits compared with naive normal equations and their dual, and reproducible bits.
#include "imka/learn/ridge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/learn/kernel_ridge.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/linalg/factor.hpp"
#include "support/thread_team.hpp"

namespace imka {
namespace {

Matrix<float> random_floats(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<float> a(rows, cols);
    fill_normal(seed, Stream::test, 0, a.values());
    return a;
}

RidgeRows side_by_side(const Matrix<float>& z, const Matrix<float>& y) {
    RidgeRows rows(z.rows(), z.cols(), y.cols());
    for (std::size_t r = 0; r < z.rows(); ++r) {
        std::ranges::copy(z.row(r), rows.z(r, 1).row(0).begin());
        std::ranges::copy(y.row(r), rows.y(r).begin());
    }
    return rows;
}

RidgeWeights fit(const Matrix<float>& z, const Matrix<float>& y, const RidgeConfig& config, int threads,
                 std::size_t batch) {
    RidgeAccumulator sums(z.cols(), y.cols());
    const auto rows = side_by_side(z, y);
    const Exec exec{.threads = threads};
    for (std::size_t first = 0; first < z.rows(); first += batch) {
        sums.add(rows.view(first, std::min(batch, z.rows() - first)), exec);
    }
    return sums.solve(config, exec);
}

// Gradient of the penalised squares at the solution, from the definition. It must be zero, except for the
// rounding of float sums of 700 products of size 4 in a tile (about 700 x 4 x 6e-8 = 2e-4; a missing penalty
// would give 0.05).
void expect_stationary(const Matrix<float>& z, const Matrix<float>& y, const RidgeConfig& config) {
    const auto weights = fit(z, y, config, 1, 100);
    for (std::size_t o = 0; o < y.cols(); ++o) {
        std::vector<double> residual(z.rows());
        double constant = 0.0;
        for (std::size_t r = 0; r < z.rows(); ++r) {
            residual[r] = weights.intercept[o] - y(r, o);
            for (std::size_t c = 0; c < z.cols(); ++c) residual[r] += z(r, c) * weights.w(c, o);
            constant += residual[r];
        }
        if (config.intercept == Intercept::penalized) constant += config.alpha * weights.intercept[o];
        if (config.intercept == Intercept::none) {
            EXPECT_EQ(weights.intercept[o], 0.0);
        } else {
            // The sums of y reach 700 x 4: each of 700 additions rounds by at most 1.2e-4, with random sign.
            EXPECT_NEAR(constant, 0.0, 2e-3);
        }
        for (std::size_t c = 0; c < z.cols(); ++c) {
            double gradient = config.alpha * weights.w(c, o);
            for (std::size_t r = 0; r < z.rows(); ++r) gradient += residual[r] * z(r, c);
            ASSERT_NEAR(gradient, 0.0, 5e-4);
        }
    }
}

TEST(Ridge, SolutionIsTheMinimumForEveryIntercept) {
    const auto z = random_floats(700, 23, 1);
    auto y = random_floats(700, 3, 2);
    for (auto& v : y.values()) v += 4.0F;  // an intercept that matters
    for (const auto intercept : {Intercept::penalized, Intercept::free, Intercept::none}) {
        expect_stationary(z, y, {.alpha = 0.5, .intercept = intercept});
    }
}

TEST(Ridge, FreeAndPenalizedInterceptDiffer) {
    const auto z = random_floats(50, 3, 1);
    auto y = random_floats(50, 1, 2);
    for (auto& v : y.values()) v += 4.0F;
    const auto penalized = fit(z, y, {.alpha = 10.0, .intercept = Intercept::penalized}, 1, 50);
    const auto free = fit(z, y, {.alpha = 10.0, .intercept = Intercept::free}, 1, 50);
    EXPECT_LT(penalized.intercept[0], free.intercept[0] - 0.3);
}

TEST(Ridge, BitsDoNotDependOnThreadsOrBatches) {
    constexpr std::size_t kRows = 3000;  // two tiles and a remainder
    const auto z = random_floats(kRows, 300, 3);
    const auto y = random_floats(kRows, 2, 4);
    const auto whole = fit(z, y, {}, 1, kRows);
    for (const auto& [threads, batch] : {std::pair{2, 3000}, {7, 1}, {1, 1023}, {2, 1024}, {7, 1025}}) {
        const auto other = fit(z, y, {}, threads, static_cast<std::size_t>(batch));
        ASSERT_EQ(whole.w, other.w) << threads << " threads, batches of " << batch;
        ASSERT_EQ(whole.intercept, other.intercept);
    }
    Matrix<double> scores(kRows, 2);
    ridge_predict(whole, z.view(), Exec{.threads = 1}, scores.view());
    for (const std::size_t batch : {1U, 100U, 257U}) {
        Matrix<double> parts(kRows, 2);
        for (std::size_t first = 0; first < kRows; first += batch) {
            const std::size_t count = std::min<std::size_t>(batch, kRows - first);
            ridge_predict(whole, z.view().slice_rows(first, count), Exec{.threads = 7},
                          parts.view().slice_rows(first, count));
        }
        ASSERT_EQ(scores, parts);
    }
}

// Members take whole lanes of tiles. With 17 tiles in 8 lanes, some members have more rows than others, one
// has a short tile, and with 9 or more members some have none.
TEST(Ridge, BitsDoNotDependOnTheTeam) {
    constexpr std::size_t kRows = 16 * RidgeAccumulator::kRowsPerTile + 100;
    const auto x = random_floats(kRows, 3, 3);
    const auto y = random_floats(kRows, 2, 4);
    const RidgeFit config{
        .recipe = {.omega = {.kernel = Kernel::rbf, .sampler = Sampler::orf, .d = 3, .m = 20, .seed = 1}}};
    const auto alone = fit_regressor(config, x.view(), y.view(), Exec{}).weights;
    for (const std::size_t size : {1U, 2U, 3U, 4U, 8U, 9U}) {
        run_team(size, [&](const Team& team) {
            const Exec exec{.threads = 2, .team = &team};
            const auto weights = fit_regressor(config, x.view(), y.view(), exec).weights;
            EXPECT_EQ(weights.w, alone.w) << "member " << team.rank() << " of " << size;
            EXPECT_EQ(weights.intercept, alone.intercept);
        });
    }
}

// w = Σ αᵢ z(xᵢ) with α = (ZZᵀ + λI)⁻¹ y: the primal weights equal the dual solution with the approximate
// kernel.
TEST(Ridge, PrimalEqualsDual) {
    const FeatureMap map(
        {.omega = {.kernel = Kernel::rbf, .sampler = Sampler::orf, .d = 4, .m = 40, .seed = 1}});
    const auto x = random_floats(120, 4, 5);
    const auto y = random_floats(120, 2, 6);
    const auto z = map.transform(x.view(), Exec{});
    const auto primal = fit(z, y, {.alpha = 0.5, .intercept = Intercept::none}, 1, 120);
    Matrix<double> gram(120, 120);
    Matrix<double> dual(120, 2);
    for (std::size_t i = 0; i < 120; ++i) {
        for (std::size_t j = 0; j < 120; ++j) {
            for (std::size_t c = 0; c < z.cols(); ++c) gram(i, j) += double{z(i, c)} * z(j, c);
        }
        gram(i, i) += 0.5;
        for (std::size_t o = 0; o < 2; ++o) dual(i, o) = y(i, o);
    }
    solve_positive_definite(gram.view(), dual.view(), "the dual", Exec{});
    for (std::size_t c = 0; c < z.cols(); ++c) {
        for (std::size_t o = 0; o < 2; ++o) {
            double w = 0.0;
            for (std::size_t i = 0; i < 120; ++i) w += dual(i, o) * z(i, c);
            // An entry of the primal system sums 120 products below 0.03 in float; a row has 80 entries, the
            // weights are of size 1, and the solution divides by at least alpha.
            ASSERT_NEAR(primal.w(c, o), w, 120 * 0.03 * 6e-8 * 80 / 0.5);
        }
    }
}

// With many features the approximate ridge converges to the exact kernel ridge.
TEST(Ridge, ApproachesExactKernelRidge) {
    const auto x = random_floats(150, 3, 7);
    Matrix<float> y(150, 1);
    for (std::size_t i = 0; i < 150; ++i) y(i, 0) = std::sin(x(i, 0)) + x(i, 1) * x(i, 2);
    const auto exact =
        fit_kernel_ridge({.kernel = Kernel::rbf, .gamma = 0.2, .alpha = 0.5}, x.view(), y.view(), Exec{});
    Matrix<double> wanted(150, 1);
    predict(exact, x.view(), Exec{}, wanted.view());
    const auto distance = [&](std::int64_t m) {
        const FeatureMap map(
            {.omega = {
                 .kernel = Kernel::rbf, .gamma = 0.2, .sampler = Sampler::orf, .d = 3, .m = m, .seed = 2}});
        const auto z = map.transform(x.view(), Exec{});
        const auto weights = fit(z, y, {.alpha = 0.5, .intercept = Intercept::none}, 0, 150);
        Matrix<double> got(150, 1);
        ridge_predict(weights, z.view(), Exec{}, got.view());
        double sum = 0.0;
        for (std::size_t i = 0; i < 150; ++i) sum += std::pow(got(i, 0) - wanted(i, 0), 2);
        return std::sqrt(sum / 150.0);
    };
    const double coarse = distance(30);
    const double fine = distance(1920);  // 64 times the directions: about an eighth of the error
    EXPECT_LT(fine, 0.25 * coarse);
    EXPECT_LT(fine, 0.02);
}

TEST(KernelRidge, InterpolatesWithoutPenalty) {
    const auto x = random_floats(20, 3, 8);
    const auto y = random_floats(20, 2, 9);
    const auto model =
        fit_kernel_ridge({.kernel = Kernel::laplace, .gamma = 1.0, .alpha = 0.0}, x.view(), y.view(), Exec{});
    Matrix<double> out(20, 2);
    predict(model, x.view(), Exec{.threads = 7}, out.view());
    for (std::size_t i = 0; i < 40; ++i) ASSERT_NEAR(out.values()[i], y.values()[i], 1e-9);
}

// Small contributions are not lost in large sums: a million equal rows give the weights of one.
TEST(Ridge, ManyRowsKeepTheSumsAccurate) {
    Matrix<float> z(4096, 2);
    Matrix<float> y(4096, 1);
    for (std::size_t r = 0; r < z.rows(); ++r) {
        z(r, 0) = r % 2 == 0 ? 1.0F : 0.1F;
        z(r, 1) = r % 2 == 0 ? 0.3F : 1.0F;
        y(r, 0) = 2.0F * z(r, 0) - 3.0F * z(r, 1);
    }
    RidgeAccumulator sums(2, 1);
    const auto rows = side_by_side(z, y);
    for (int i = 0; i < 256; ++i) sums.add(rows.view(0, z.rows()), Exec{});
    const auto weights = sums.solve({.alpha = 0.0, .intercept = Intercept::none}, Exec{});
    // Float sums of 512 equal terms (of 1024, half are of each kind): 512 x 6e-8 = 3e-5, times the condition
    // of the system, about 4. Float sums of a million would be off by percents.
    EXPECT_NEAR(weights.w(0, 0), 2.0, 1.2e-4);
    EXPECT_NEAR(weights.w(1, 0), -3.0, 1.2e-4);
}

TEST(Ridge, RefusesUnsolvableSystems) {
    RidgeAccumulator none(3, 1);
    EXPECT_THROW((void)none.solve({}, Exec{}), Error);
    auto z = random_floats(10, 3, 1);
    for (std::size_t r = 0; r < 10; ++r) z(r, 2) = z(r, 1) = 0.0F;
    const auto y = random_floats(10, 1, 2);
    try {
        (void)fit(z, y, {.alpha = 0.0}, 1, 10);
        FAIL() << "accepted";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::numeric);
    }
    EXPECT_THROW(RidgeAccumulator(std::size_t{1} << 40, 1), Error);
}

// Ridge from the definition: normal equations in double.
RidgeWeights reference(const Matrix<float>& z, const Matrix<float>& y, const RidgeConfig& config) {
    const std::size_t d = z.cols();
    const std::size_t p = d + (config.intercept == Intercept::none ? 0 : 1);
    Matrix<double> a(p, p);
    Matrix<double> b(p, y.cols());
    const auto value = [&](std::size_t r, std::size_t c) { return c < d ? double{z(r, c)} : 1.0; };
    for (std::size_t i = 0; i < p; ++i) {
        if (i < d || config.intercept == Intercept::penalized) a(i, i) = config.alpha;
        for (std::size_t r = 0; r < z.rows(); ++r) {
            for (std::size_t j = i; j < p; ++j) a(i, j) += value(r, i) * value(r, j);
            for (std::size_t o = 0; o < y.cols(); ++o) b(i, o) += value(r, i) * y(r, o);
        }
    }
    solve_positive_definite(a.view(), b.view(), "the reference", Exec{});
    RidgeWeights weights{.w = Matrix<double>(d, y.cols()), .intercept = std::vector<double>(y.cols())};
    for (std::size_t o = 0; o < y.cols(); ++o) {
        for (std::size_t i = 0; i < d; ++i) weights.w(i, o) = b(i, o);
        if (p > d) weights.intercept[o] = b(d, o);
    }
    return weights;
}

RidgeWeights fit_dual(const Matrix<float>& z, const Matrix<float>& y, const RidgeConfig& config, int threads,
                      std::size_t batch) {
    RidgeAccumulator sums(z.cols(), y.cols(), nullptr, z.rows());
    EXPECT_EQ(sums.solver(), Solver::dual);
    const auto rows = side_by_side(z, y);
    for (std::size_t first = 0; first < z.rows(); first += batch)
        sums.add(rows.view(first, std::min(batch, z.rows() - first)), Exec{.threads = threads});
    return sums.solve(config, Exec{.threads = threads});
}

// Predictions of new rows agree with the definition to 1e-6, for every intercept, several outputs, small and
// large penalties, and more rows than a block of products holds.
TEST(RidgeDual, PredictsAsThePrimal) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{50}, std::size_t{300}}) {
        const auto z = random_floats(n, 450, n);
        auto y = random_floats(n, 3, n + 1);
        for (auto& v : y.values()) v += 4.0F;
        const auto fresh = random_floats(60, 450, 9);
        for (const auto intercept : {Intercept::penalized, Intercept::free, Intercept::none}) {
            for (const double alpha : {1e-3, 0.5, 100.0}) {
                const RidgeConfig config{.alpha = alpha, .intercept = intercept};
                Matrix<double> want(60, 3);
                Matrix<double> got(60, 3);
                ridge_predict(reference(z, y, config), fresh.view(), Exec{}, want.view());
                ridge_predict(fit_dual(z, y, config, 1, 7), fresh.view(), Exec{}, got.view());
                double size = 0.0;
                for (const double v : want.values()) size = std::max(size, std::abs(v));
                for (std::size_t i = 0; i < 180; ++i)
                    ASSERT_NEAR(got.values()[i], want.values()[i], 1e-6 * size)
                        << n << " rows, " << to_string(intercept) << ", alpha " << alpha;
            }
        }
    }
}

TEST(RidgeDual, BitsDoNotDependOnThreadsOrBatches) {
    const auto z = random_floats(600, 1200, 3);
    const auto y = random_floats(600, 2, 4);
    const auto whole = fit_dual(z, y, {}, 1, 600);
    for (const auto& [threads, batch] : {std::pair{2, 600}, {7, 1}, {1, 599}}) {
        const auto other = fit_dual(z, y, {}, threads, static_cast<std::size_t>(batch));
        ASSERT_EQ(whole.w, other.w);
        ASSERT_EQ(whole.intercept, other.intercept);
    }
}

TEST(RidgeDual, IsChosenByCost) {
    EXPECT_EQ(ridge_solver(20000, 50), Solver::dual);
    EXPECT_EQ(ridge_solver(1000, 700), Solver::dual);
    EXPECT_EQ(ridge_solver(1000, 800), Solver::primal);
    EXPECT_EQ(ridge_solver(1000, 100000), Solver::primal);
    EXPECT_EQ(ridge_solver(1000, 0), Solver::primal) << "unknown number of rows";
    run_team(
        2, [](const Team& team) { EXPECT_EQ(RidgeAccumulator(100, 1, &team, 10).solver(), Solver::primal); });
    EXPECT_LT(RidgeAccumulator::memory_bytes(20000, 1, 50), 0.01 * RidgeAccumulator::memory_bytes(20000, 1));
}

TEST(RidgeDual, RefusesWhatCannotBeSolvedOrStored) {
    RidgeAccumulator none(30, 1, nullptr, 5);
    EXPECT_THROW((void)none.solve({}, Exec{}), Error);
    EXPECT_THROW(RidgeAccumulator(std::size_t{1} << 40, 1, nullptr, std::size_t{1} << 20), Error);
    Matrix<float> same(4, 30);  // four equal rows
    for (auto& v : same.values()) v = 1.0F;
    const auto y = random_floats(4, 1, 2);
    EXPECT_THROW((void)fit_dual(same, y, {.alpha = 0.0}, 1, 4), Error);
}

}  // namespace
}  // namespace imka

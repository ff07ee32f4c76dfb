// Error of matrix-vector products from programming, read noise and drift, for known laws of weights and
// inputs, compared with a separate simulation with the same published constants.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/device/device.hpp"
#include "imka/chip/region.hpp"
#include "imka/chip/spec/chip.hpp"
#include "support/weight_scale.hpp"

namespace imka {
namespace {

constexpr std::size_t kSize = 256;
constexpr std::size_t kVectors = 40;
constexpr int kSeeds = 4;
constexpr double kSeconds[] = {0.0, 0.0, 3600.0, 86400.0};

// uniform: weights uniform with 30 % zeros, inputs uniform with 50 % zeros. gaussian: both normal, weights
// truncated at 3 standard deviations, inputs with a standard deviation of 40 of 127 steps.
enum class Laws { uniform, gaussian };

Matrix<float> draw_weights(Laws laws, std::uint64_t seed) {
    Matrix<float> w(kSize, kSize);
    for (std::size_t i = 0; i < kSize * kSize; ++i) {
        w.values()[i] = laws == Laws::gaussian ? truncated_normal(seed, Stream::test, i, 3.0F)
                        : uniform(seed, Stream::test, 2 * i) < 0.3
                            ? 0.0F
                            : static_cast<float>(2.0 * uniform(seed, Stream::test, 2 * i + 1) - 1.0);
    }
    return w;
}

Matrix<float> draw_inputs(Laws laws, std::uint64_t seed) {
    Matrix<float> x(kVectors, kSize);
    for (std::size_t i = 0; i < kVectors * kSize; ++i) {
        x.values()[i] = laws == Laws::gaussian ? normal(seed, Stream::test, i) * 40.0F / 127.0F
                        : uniform(seed, Stream::test, 2 * i) < 0.5
                            ? 0.0F
                            : static_cast<float>(2.0 * uniform(seed, Stream::test, 2 * i + 1) - 1.0);
    }
    return x;
}

Matrix<float> difference(const Matrix<float>& plus, const Matrix<float>& minus) {
    Matrix<float> out(plus.rows(), plus.cols());
    std::transform(plus.values().begin(), plus.values().end(), minus.values().begin(), out.values().begin(),
                   std::minus<>());
    return out;
}

// Mean over vectors of |y - Wx| / |Wx|, in percent; y from inputs in 127 steps per side and conductances
// g, where column c has weight[c] per uS.
double relative_error(const Matrix<float>& w, const Matrix<float>& x, const Matrix<float>& g,
                      const std::vector<double>& weight) {
    double sum = 0.0;
    for (std::size_t v = 0; v < x.rows(); ++v) {
        std::vector<double> y(kSize, 0.0);
        std::vector<double> exact(kSize, 0.0);
        for (std::size_t i = 0; i < kSize; ++i) {
            const double step = std::nearbyint(std::clamp(double{x(v, i)}, -1.0, 1.0) * 127.0) / 127.0;
            for (std::size_t c = 0; c < kSize; ++c) {
                y[c] += step * g(i, c);
                exact[c] += double{x(v, i)} * w(i, c);
            }
        }
        double error = 0.0;
        for (std::size_t c = 0; c < kSize; ++c) {
            const double e = y[c] * weight[c] - exact[c];
            error += e * e;
        }
        sum += std::sqrt(error / std::inner_product(exact.begin(), exact.end(), exact.begin(), 0.0));
    }
    return 100.0 * sum / static_cast<double>(x.rows());
}

struct Case {
    const char* chip;
    Laws laws;
    WeightScale scale;
    std::vector<double> expected;  // programming only; then with read noise at 0 s, 1 h, 1 day
};

class MvmError : public testing::TestWithParam<Case> {};

TEST_P(MvmError, MatchesTheSeparateSimulation) {
    const auto& p = GetParam();
    const auto m = chip_preset(p.chip).device;
    std::vector<double> measured(4, 0.0);
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        const auto w = draw_weights(p.laws, 100 + seed);
        const auto x = draw_inputs(p.laws, 200 + seed);
        const auto mapped = map_weights(w.view(), column_conductances(w.view(), p.scale, m.g_max_us));
        const auto plus =
            program_devices(m, mapped.plus_us.view(), {.seed = seed, .first = 0, .stride = kSize});
        const auto minus = program_devices(m, mapped.minus_us.view(),
                                           {.seed = seed, .first = kSize * kSize, .stride = kSize});
        measured[0] += relative_error(w, x, difference(plus.g_us, minus.g_us), mapped.weight_per_us);
        Matrix<float> reference;
        for (std::size_t k = 1; k < 4; ++k) {
            // Products without a pause: all noise is frozen, as in the reference simulation.
            const ReadTime time{.seconds = kSeconds[k], .spacing_seconds = 0.0};
            const auto now =
                difference(conductances_at(m, plus, time).g_us, conductances_at(m, minus, time).g_us);
            if (k == 1) reference = now;
            auto weight = mapped.weight_per_us;
            const auto factor = drift_compensation(DriftCompensation::global, reference.view(), now.view());
            for (std::size_t c = 0; c < kSize; ++c) weight[c] *= factor[c];
            measured[k] += relative_error(w, x, now, weight);
        }
    }
    for (std::size_t k = 0; k < 4; ++k) {
        // The reference is rounded to 0.1 and uses different draws of 65 536 weights; the error of one draw
        // has a standard deviation of 0.8 %.
        EXPECT_NEAR(measured[k] / kSeeds, p.expected[k], 0.05 + 0.02 * p.expected[k]) << k;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Table, MvmError,
    testing::Values(Case{"pcm-like", Laws::uniform, WeightScale::layer, {6.4, 8.1, 9.5, 11.1}},
                    Case{"hermes-od", Laws::uniform, WeightScale::layer, {13.7, 15.9, 17.1, 19.8}},
                    Case{"hermes-published", Laws::uniform, WeightScale::layer, {7.5, 9.9, 11.0, 14.1}},
                    Case{"pcm-like", Laws::gaussian, WeightScale::layer, {9.0, 11.4, 12.8, 14.5}},
                    Case{"hermes-od", Laws::gaussian, WeightScale::layer, {18.7, 20.8, 21.6, 24.1}},
                    Case{"hermes-published", Laws::gaussian, WeightScale::layer, {12.0, 13.9, 14.8, 17.3}},
                    Case{"pcm-like", Laws::gaussian, WeightScale::column, {8.6, 10.7, 12.2, 13.9}},
                    Case{"hermes-od", Laws::gaussian, WeightScale::column, {17.8, 19.9, 20.9, 23.7}},
                    Case{"hermes-published", Laws::gaussian, WeightScale::column, {11.2, 13.2, 14.2, 17.2}}));

TEST(Compensation, GlobalAndColumnFactorsAreRatiosOfMeans) {
    Matrix<float> before(2, 2);
    Matrix<float> after(2, 2);
    before(0, 0) = 4.0F;
    before(1, 0) = -2.0F;
    before(1, 1) = 2.0F;
    after(0, 0) = 2.0F;
    after(1, 0) = -1.0F;
    after(1, 1) = 1.6F;
    const auto global = drift_compensation(DriftCompensation::global, before.view(), after.view());
    EXPECT_DOUBLE_EQ(global[0], 8.0 / (3.0 + double{1.6F}));
    EXPECT_EQ(global[0], global[1]);
    const auto column = drift_compensation(DriftCompensation::column, before.view(), after.view());
    EXPECT_DOUBLE_EQ(column[0], 2.0);
    EXPECT_DOUBLE_EQ(column[1], 2.0 / double{1.6F});
    EXPECT_EQ(drift_compensation(DriftCompensation::none, before.view(), after.view())[1], 1.0);
    const Matrix<float> zero(2, 2);
    EXPECT_EQ(drift_compensation(DriftCompensation::column, zero.view(), zero.view())[0], 1.0);
    EXPECT_DOUBLE_EQ(drift_compensation(DriftCompensation::column, before.view(), zero.view())[0], 1e4);
}

}  // namespace
}  // namespace imka

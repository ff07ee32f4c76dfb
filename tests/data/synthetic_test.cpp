// Generators: laws, random access, and the error of the Bayes classifier against the stated value.
#include "imka/data/synthetic.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace imka {
namespace {

constexpr std::array kAll = {Generator::ringnorm, Generator::twonorm, Generator::waveform};

struct Rows {
    Matrix<float> x;
    std::vector<std::int32_t> y;
};

Rows make(Generator g, std::uint64_t seed, std::uint64_t first, std::size_t rows) {
    Rows out{Matrix<float>(rows, generator_info(g).features), std::vector<std::int32_t>(rows)};
    generate_rows(g, seed, first, out.x.view(), out.y);
    return out;
}

double wave(int k, int i) {
    const int shift = k == 2 ? -4 : (k == 3 ? 4 : 0);
    return std::max(6.0 - std::abs(i + shift - 11), 0.0);
}

// Log densities up to a common constant, derived from the definitions, independent of the generator.
double log_density(Generator g, int y, std::span<const float> x) {
    const double a = 2.0 / std::sqrt(20.0);
    double q = 0.0;
    if (g == Generator::twonorm) {
        for (const float v : x) q += std::pow(v - (y == 0 ? a : -a), 2);
        return -q / 2.0;
    }
    if (g == Generator::ringnorm) {
        for (const float v : x) q += y == 0 ? std::pow(v / 2.0, 2) : std::pow(v - a, 2);
        return -q / 2.0 - (y == 0 ? 20.0 * std::log(2.0) : 0.0);
    }
    // waveform: the integral over u of a Gaussian along a segment from h_b to h_a.
    const int wa = y == 2 ? 2 : 1;
    const int wb = y == 0 ? 2 : 3;
    double length2 = 0.0;
    double along = 0.0;
    for (std::size_t c = 0; c < x.size(); ++c) {
        const int i = static_cast<int>(c) + 1;
        const double step = wave(wa, i) - wave(wb, i);
        const double rest = x[c] - wave(wb, i);
        length2 += step * step;
        along += step * rest;
        q += rest * rest;
    }
    const double length = std::sqrt(length2);
    const double s = along / length;
    const double mass = std::erfc(-s / std::numbers::sqrt2) - std::erfc((length - s) / std::numbers::sqrt2);
    return -(q - s * s) / 2.0 + std::log(std::max(mass, 1e-300) / length);
}

TEST(Synthetic, RowsAreFunctionsOfSeedAndIndex) {
    for (const auto g : kAll) {
        const auto whole = make(g, 5, 0, 100);
        const auto block = make(g, 5, 37, 20);
        for (std::size_t r = 0; r < 20; ++r) {
            EXPECT_EQ(block.y[r], whole.y[r + 37]);
            for (std::size_t c = 0; c < block.x.cols(); ++c) EXPECT_EQ(block.x(r, c), whole.x(r + 37, c));
        }
        EXPECT_FALSE(make(g, 6, 0, 100).x == whole.x);
    }
}

// n = 100,000 rows; class counts are binomial, and the mean and variance of each column within a class are
// compared with theory at 5 sigma (variance of a sample variance: (kurtosis - 1) sigma^4 / n).
TEST(Synthetic, ClassesAndMomentsFollowTheory) {
    constexpr std::size_t kRows = 100000;
    const double a = 2.0 / std::sqrt(20.0);
    for (const auto g : kAll) {
        const auto rows = make(g, 1, 0, kRows);
        const int classes = generator_info(g).classes;
        for (int y = 0; y < classes; ++y) {
            double n = 0.0;
            std::vector<double> sum(rows.x.cols());
            std::vector<double> square(rows.x.cols());
            for (std::size_t r = 0; r < kRows; ++r) {
                if (rows.y[r] != y) continue;
                n += 1.0;
                for (std::size_t c = 0; c < sum.size(); ++c) {
                    sum[c] += rows.x(r, c);
                    square[c] += std::pow(rows.x(r, c), 2);
                }
            }
            const double p = 1.0 / classes;
            EXPECT_NEAR(n / kRows, p, 5.0 * std::sqrt(p * (1.0 - p) / kRows));
            for (std::size_t c = 0; c < sum.size(); ++c) {
                double mean = 0.0;
                double variance = 1.0;
                double kurtosis = 3.0;
                if (g == Generator::twonorm) mean = y == 0 ? a : -a;
                if (g == Generator::ringnorm) {
                    mean = y == 0 ? 0.0 : a;
                    variance = y == 0 ? 4.0 : 1.0;
                }
                if (g == Generator::waveform) {
                    const int i = static_cast<int>(c) + 1;
                    const double ha = wave(y == 2 ? 2 : 1, i);
                    const double hb = wave(y == 0 ? 2 : 3, i);
                    const double spread = std::pow(ha - hb, 2) / 12.0;  // variance of a uniform
                    mean = (ha + hb) / 2.0;
                    variance = 1.0 + spread;
                    // Fourth moment of uniform + normal: 9/5 spread^2 + 6 spread + 3.
                    kurtosis = (1.8 * spread * spread + 6.0 * spread + 3.0) / (variance * variance);
                }
                EXPECT_NEAR(sum[c] / n, mean, 5.0 * std::sqrt(variance / n)) << to_string(g) << y << " " << c;
                const double v = square[c] / n - std::pow(sum[c] / n, 2);
                EXPECT_NEAR(v, variance, 5.0 * variance * std::sqrt((kurtosis - 1.0) / n))
                    << to_string(g) << y << " " << c;
            }
        }
    }
}

// n = 400,000 rows, 5 sigma of a binomial proportion: ringnorm 1.24 +- 0.09 %, twonorm 2.28 +- 0.12 %,
// waveform 13.29 +- 0.27 %.
TEST(Synthetic, BestRuleHasTheStatedError) {
    constexpr std::size_t kRows = 400000;
    for (const auto g : kAll) {
        const auto& info = generator_info(g);
        const auto rows = make(g, 2, 0, kRows);
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < kRows; ++r) {
            int best = 0;
            for (int y = 1; y < info.classes; ++y) {
                if (log_density(g, y, rows.x.row(r)) > log_density(g, best, rows.x.row(r))) best = y;
            }
            wrong += best == rows.y[r] ? 0U : 1U;
        }
        const double e = info.bayes_error.value();
        EXPECT_NEAR(static_cast<double>(wrong) / kRows, e, 5.0 * std::sqrt(e * (1.0 - e) / kRows))
            << to_string(g);
    }
}

TEST(Synthetic, TwonormErrorIsTheNormalTailAtTwo) {
    EXPECT_NEAR(*generator_info(Generator::twonorm).bayes_error, 0.5 * std::erfc(std::numbers::sqrt2), 1e-7);
}

TEST(Synthetic, NamesAreFoundAndHashesDiffer) {
    EXPECT_EQ(find_generator("waveform"), Generator::waveform);
    EXPECT_EQ(find_generator("threenorm"), std::nullopt);
    EXPECT_NE(generator_sha256(Generator::ringnorm), generator_sha256(Generator::twonorm));
}

// n = 200,000 rows: mean and variance of the targets at 5 sigma; the noise is the part that the function does
// not explain.
TEST(Synthetic, FriedmanHasTheStatedNoiseAndR2) {
    constexpr std::size_t kRows = 200000;
    const auto& info = generator_info(Generator::friedman1);
    Matrix<float> x(kRows, info.features);
    std::vector<double> y(kRows);
    generate_targets(Generator::friedman1, 3, 0, x.view(), y);
    double sum = 0.0;
    double squares = 0.0;
    double noise = 0.0;
    for (std::size_t r = 0; r < kRows; ++r) {
        const double f = 10.0 * std::sin(std::numbers::pi * x(r, 0) * x(r, 1)) +
                         20.0 * (x(r, 2) - 0.5) * (x(r, 2) - 0.5) + 10.0 * x(r, 3) + 5.0 * x(r, 4);
        noise += (y[r] - f) * (y[r] - f);
        sum += y[r];
        squares += y[r] * y[r];
    }
    const double mean = sum / kRows;
    const double variance = squares / kRows - mean * mean;
    EXPECT_NEAR(noise / kRows, *info.noise * *info.noise, 5.0 * std::sqrt(2.0 / kRows));
    // The kurtosis of y is below 3.
    EXPECT_NEAR(1.0 - noise / kRows / variance, *info.best_r2, 5.0 * 2.0 * std::sqrt(2.0 / kRows) * 0.04);
    Matrix<float> late(10, info.features);
    std::vector<double> late_y(10);
    generate_targets(Generator::friedman1, 3, 500, late.view(), late_y);
    EXPECT_EQ(late_y[9], y[509]);
    EXPECT_EQ(late(9, 9), x(509, 9));
}

}  // namespace
}  // namespace imka

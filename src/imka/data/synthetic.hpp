// Breiman's synthetic classification problems (Bias, variance, and arcing classifiers, 1996; waveform:
// Classification and Regression Trees, 1984) and Friedman's first regression problem (Multivariate adaptive
// regression splines, 1991). Row i is a function of (seed, i), so any block can be generated alone and the
// number of rows is unlimited.
//
// twonorm:  2 classes, d = 20. N(+a 1, I) and N(-a 1, I), a = 2 / sqrt(20).
// ringnorm: 2 classes, d = 20. N(0, 4 I) and N(a 1, I), a = 2 / sqrt(20).
// waveform: 3 classes, d = 21. u h_a + (1 - u) h_b + N(0, I) with u uniform on (0, 1) and (a, b) = (1, 2),
//           (1, 3), (2, 3); h_1(i) = max(6 - |i - 11|, 0), h_2(i) = h_1(i - 4), h_3(i) = h_1(i + 4), i
//           = 1..21.
// friedman1: regression, d = 10, x uniform on (0, 1). y = 10 sin(pi x_1 x_2) + 20 (x_3 - 1/2)² + 10 x_4 +
//           5 x_5 + N(0, 1).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

enum class Generator { ringnorm, twonorm, waveform, friedman1 };
template <>
struct EnumNames<Generator> {
    static constexpr std::string_view what = "generator";
    static constexpr std::string_view values[] = {"ringnorm", "twonorm", "waveform", "friedman1"};
};

struct GeneratorInfo {
    std::string_view description;
    std::uint32_t features;
    std::int32_t classes;  // equally likely; 0: regression
    std::uint64_t train_rows;
    std::uint64_t test_rows;
    // Error rate of the Bayes classifier, by integration; all digits are correct.
    std::optional<double> bayes_error;
    // Regression: standard deviation of the noise, and R² of the function without it, by integration.
    std::optional<double> noise = {};
    std::optional<double> best_r2 = {};
};

const GeneratorInfo& generator_info(Generator g);
std::optional<Generator> find_generator(std::string_view name);

// Identifies the generator's definition, as a table's hash identifies a table.
std::string generator_sha256(Generator g);

// Rows first, first + 1, ... of the seed: x.rows() == y.size(), x.cols() == features. Classes count from 0.
void generate_rows(Generator g, std::uint64_t seed, std::uint64_t first, MatrixView<float> x,
                   std::span<std::int32_t> y);
// The same for a generator of numbers to predict.
void generate_targets(Generator g, std::uint64_t seed, std::uint64_t first, MatrixView<float> x,
                      std::span<double> y);

}  // namespace imka

#include "imka/data/synthetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include "imka/base/random.hpp"
#include "imka/base/sha256.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka {
namespace {

// Bayes errors. twonorm: Phi(-2), because the means are 2 |mu| = 4 apart. ringnorm: the likelihood ratio
// depends on the coordinate along mu and the squared length orthogonal to it (chi-square, 19 degrees of
// freedom); a one-dimensional integral of the errors of both classes, (0.015710 + 0.009083) / 2. waveform:
// the likelihoods depend on the projection onto the plane through h_1, h_2, h_3; one minus a third of the
// two-dimensional integral of the largest of the three densities. friedman1: the variance of the function is
// 11.187575 (sine, by integration) + 400 / 180 + 100 / 12 + 25 / 12 = 23.826464.
constexpr std::array<GeneratorInfo, 4> kInfo = {{
    {"Breiman's ringnorm: a Gaussian inside a wider one", 20, 2, 3700, 3700, 0.0123966},
    {"Breiman's twonorm: two Gaussians with unit covariance", 20, 2, 3700, 3700, 0.0227501},
    {"Breiman's waveform: random mixtures of two of three triangular waves, with noise", 21, 3, 2500, 2500,
     0.132933},
    {"Friedman's first regression problem: five of ten inputs matter, noise of standard deviation 1", 10, 0,
     5000, 5000, std::nullopt, 1.0, 0.9597204},
}};

constexpr float kNormMean = 0.4472135954999579F;  // 2 / sqrt(20)

float wave(int which, int i) {
    constexpr std::array<int, 3> kPeak = {11, 15, 7};
    return static_cast<float>(std::max(6 - std::abs(i - kPeak.at(static_cast<std::size_t>(which))), 0));
}

void add_waves(std::int32_t y, double u, std::span<float> row) {
    const int a = y == 2 ? 1 : 0;
    const int b = y == 0 ? 1 : 2;
    const auto share = static_cast<float>(u);
    for (std::size_t c = 0; c < row.size(); ++c) {
        const int i = static_cast<int>(c) + 1;
        row[c] += share * wave(a, i) + (1.0F - share) * wave(b, i);
    }
}

// Fills the rows first, first + 1, ... with normals; the stream indices of a row are consecutive.
void fill_rows(std::uint64_t seed, std::uint64_t first, MatrixView<float> x) {
    const std::size_t cols = x.cols();
    if (x.stride() == cols)
        return ops::fill_normal(seed, Stream::synthetic_value, first * cols, {x.data(), x.rows() * cols});
    for (std::size_t r = 0; r < x.rows(); ++r)
        ops::fill_normal(seed, Stream::synthetic_value, (first + r) * cols, x.row(r));
}

}  // namespace

const GeneratorInfo& generator_info(Generator g) {
    return kInfo.at(static_cast<std::size_t>(g));
}

std::optional<Generator> find_generator(std::string_view name) {
    const std::span names(EnumNames<Generator>::values);
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) return std::nullopt;
    return static_cast<Generator>(it - names.begin());
}

std::string generator_sha256(Generator g) {
    constexpr int kVersion = 1;  // increment when a generator's rows change
    return sha256_hex(fmt::format("imka generator {} version {}", to_string(g), kVersion));
}

void generate_rows(Generator g, std::uint64_t seed, std::uint64_t first, MatrixView<float> x,
                   std::span<std::int32_t> y) {
    const auto& info = generator_info(g);
    assert(x.rows() == y.size() && x.cols() == info.features && info.classes > 0);
    fill_rows(seed, first, x);
    for (std::size_t r = 0; r < x.rows(); ++r) {
        const std::uint64_t index = first + r;
        const auto row = x.row(r);
        y[r] = static_cast<std::int32_t>(
            uniform_int(seed, Stream::synthetic_class, index, static_cast<std::uint64_t>(info.classes)));
        switch (g) {
            case Generator::twonorm:
                for (float& v : row) v += y[r] == 0 ? kNormMean : -kNormMean;
                break;
            case Generator::ringnorm:
                for (float& v : row) v = y[r] == 0 ? 2.0F * v : v + kNormMean;
                break;
            case Generator::waveform:
                add_waves(y[r], uniform(seed, Stream::synthetic_mix, index), row);
                break;
            case Generator::friedman1:
                break;
        }
    }
}

void generate_targets(Generator g, std::uint64_t seed, std::uint64_t first, MatrixView<float> x,
                      std::span<double> y) {
    const auto& info = generator_info(g);
    assert(x.rows() == y.size() && x.cols() == info.features && g == Generator::friedman1);
    for (std::size_t r = 0; r < x.rows(); ++r) {
        const std::uint64_t index = first + r;
        const auto row = x.row(r);
        for (std::size_t c = 0; c < row.size(); ++c)
            row[c] = static_cast<float>(uniform(seed, Stream::synthetic_value, index * info.features + c));
        const double noise = *info.noise * static_cast<double>(normal(seed, Stream::synthetic_mix, index));
        y[r] = 10.0 * std::sin(std::numbers::pi * row[0] * row[1]) + 20.0 * std::pow(row[2] - 0.5, 2) +
               10.0 * row[3] + 5.0 * row[4] + noise;
    }
}

}  // namespace imka

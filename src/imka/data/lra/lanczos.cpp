#include "imka/data/lra/lanczos.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <vector>

namespace imka {
namespace {

constexpr int kFractionBits = 22;  // of the fixed-point weights
constexpr double kLobes = 3.0;

// Weights of the pixels that contribute to one pixel of the result.
struct Taps {
    std::size_t first = 0;
    std::vector<std::int32_t> weights;
};

double sinc(double x) {
    return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

double lanczos(double x) {
    return x >= -kLobes && x < kLobes ? sinc(x) * sinc(x / kLobes) : 0.0;
}

Taps taps_of(std::size_t pixel, double scale, std::size_t in) {
    const double stretch = std::max(scale, 1.0);
    const double centre = (static_cast<double>(pixel) + 0.5) * scale;
    const auto rounded = [](double x) { return static_cast<std::size_t>(std::max(x + 0.5, 0.0)); };
    const std::size_t first = rounded(centre - kLobes * stretch);
    const std::size_t last = std::min(rounded(centre + kLobes * stretch), in);
    std::vector<double> values;
    double sum = 0.0;
    for (std::size_t i = first; i < last; ++i) {
        values.push_back(lanczos((static_cast<double>(i) - centre + 0.5) / stretch));
        sum += values.back();
    }
    Taps taps{.first = first};
    for (const double value : values)
        taps.weights.push_back(static_cast<std::int32_t>(std::round(value / sum * (1 << kFractionBits))));
    return taps;
}

// Resamples along rows and transposes.
Matrix<std::uint8_t> resampled_transpose(const Matrix<std::uint8_t>& image, const std::vector<Taps>& taps) {
    Matrix<std::uint8_t> out(taps.size(), image.rows());
    for (std::size_t r = 0; r < image.rows(); ++r) {
        const auto row = image.row(r);
        for (std::size_t c = 0; c < taps.size(); ++c) {
            std::int32_t sum = 1 << (kFractionBits - 1);
            for (std::size_t i = 0; i < taps[c].weights.size(); ++i)
                sum += row[taps[c].first + i] * taps[c].weights[i];
            out(c, r) = static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
        }
    }
    return out;
}

}  // namespace

Matrix<std::uint8_t> lanczos_resized(const Matrix<std::uint8_t>& image, std::size_t side) {
    assert(image.rows() == image.cols() && side > 0);
    const double scale = static_cast<double>(image.cols()) / static_cast<double>(side);
    std::vector<Taps> taps;
    for (std::size_t i = 0; i < side; ++i) taps.push_back(taps_of(i, scale, image.cols()));
    return resampled_transpose(resampled_transpose(image, taps), taps);
}

}  // namespace imka

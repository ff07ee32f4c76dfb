// The smallest use of the library: random directions, whose features estimate the RBF kernel of two points.
#include <cmath>
#include <cstdio>
#include <vector>

#include "imka/base/random.hpp"

int main() {
    const std::vector<float> x = {0.3F, -1.2F, 0.8F};
    const std::vector<float> y = {0.1F, -0.9F, 1.1F};
    const double gamma = 0.5;
    const std::size_t m = 4096;  // directions
    const std::size_t d = x.size();

    // k(x, y) = exp(-gamma |x - y|^2) is the mean of cos(w.(x - y)) over w ~ N(0, 2 gamma I).
    std::vector<float> omega(m * d);
    imka::fill_normal(0, imka::Stream::omega_normal, 0, omega);
    double estimate = 0.0;
    for (std::size_t i = 0; i < m; ++i) {
        double u = 0.0;
        for (std::size_t c = 0; c < d; ++c) u += omega[i * d + c] * (x[c] - y[c]);
        estimate += std::cos(std::sqrt(2.0 * gamma) * u) / static_cast<double>(m);
    }

    double distance2 = 0.0;
    for (std::size_t c = 0; c < d; ++c) distance2 += (x[c] - y[c]) * (x[c] - y[c]);
    const double exact = std::exp(-gamma * distance2);
    std::printf("exact %.4f, estimate %.4f from %zu directions\n", exact, estimate, m);
    return std::abs(exact - estimate) < 5.0 / std::sqrt(static_cast<double>(m)) ? 0 : 1;
}

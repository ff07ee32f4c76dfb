#include "imka/chip/program/compensation.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace imka {
namespace {

std::vector<double> column_sums(MatrixView<const float> g) {
    std::vector<double> sums(g.cols(), 0.0);
    for (std::size_t r = 0; r < g.rows(); ++r) {
        for (std::size_t c = 0; c < g.cols(); ++c) sums[c] += std::abs(double{g(r, c)});
    }
    return sums;
}

double ratio(double reference, double now) {
    if (reference == 0.0) return 1.0;
    return reference / std::max(now, 1e-4 * reference);
}

}  // namespace

std::vector<double> drift_compensation(DriftCompensation kind, MatrixView<const float> reference,
                                       MatrixView<const float> now) {
    assert(reference.rows() == now.rows() && reference.cols() == now.cols());
    std::vector<double> factors(now.cols(), 1.0);
    if (kind == DriftCompensation::none) return factors;
    const auto before = column_sums(reference);
    const auto after = column_sums(now);
    if (kind == DriftCompensation::global) {
        const double sum_before = std::accumulate(before.begin(), before.end(), 0.0);
        const double sum_after = std::accumulate(after.begin(), after.end(), 0.0);
        std::fill(factors.begin(), factors.end(), ratio(sum_before, sum_after));
    } else {
        std::transform(before.begin(), before.end(), after.begin(), factors.begin(), ratio);
    }
    return factors;
}

}  // namespace imka

#include "imka/metrics/summary.hpp"

#include <cassert>
#include <cmath>
#include <numbers>
#include <utility>

#include "imka/base/parallel.hpp"

namespace imka {

// With T = sqrt(v) tan(a) the density is proportional to cos(a)^(v-1), whose integral is a finite sum of
// powers of the cosine (Abramowitz and Stegun, 26.7.3 and 26.7.4).
double student_probability(double t, std::size_t freedom) {
    const double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
    const double c = std::cos(angle);
    const bool odd = freedom % 2 == 1;
    double sum = 0.0;
    double term = odd ? c : 1.0;
    for (std::size_t power = odd ? 1 : 0; power + 2 <= freedom; power += 2) {
        sum += term;
        term *= c * c * static_cast<double>(power + 1) / static_cast<double>(power + 2);
    }
    const double part = std::sin(angle) * sum;
    return odd ? 2.0 / std::numbers::pi * (angle + part) : part;
}

double student_quantile(double confidence, std::size_t freedom) {
    assert(freedom >= 1 && confidence > 0.0 && confidence < 1.0);
    double low = 0.0;
    double high = 1.0;
    while (student_probability(high, freedom) < confidence) high *= 2.0;
    for (int i = 0; i < 60; ++i) {
        const double middle = 0.5 * (low + high);
        (student_probability(middle, freedom) < confidence ? low : high) = middle;
    }
    return 0.5 * (low + high);
}

double Summary::error() const {
    return n > 0 ? std / std::sqrt(static_cast<double>(n)) : 0.0;
}

Summary summarize(std::vector<double> values) {
    assert(!values.empty());
    Summary s{.n = values.size()};
    const auto n = static_cast<double>(s.n);
    s.mean = tree_sum(values) / n;
    if (s.n > 1) {
        std::vector<double> squares;
        for (const double v : values) squares.push_back((v - s.mean) * (v - s.mean));
        s.std = std::sqrt(tree_sum(squares) / (n - 1.0));
        s.half_width = student_quantile(0.95, s.n - 1) * s.error();
    }
    s.values = std::move(values);
    return s;
}

double deviation(const Summary& a, const Summary& b) {
    const double difference = a.mean - b.mean;
    const double error = std::hypot(a.error(), b.error());
    if (error > 0.0) return difference / error;
    return difference == 0.0 ? 0.0 : std::copysign(INFINITY, difference);
}

}  // namespace imka

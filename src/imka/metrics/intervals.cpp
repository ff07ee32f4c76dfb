#include "imka/metrics/intervals.hpp"

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

Summary summarize(std::vector<double> values) {
    assert(!values.empty());
    Summary s{.values = std::move(values)};
    const auto n = static_cast<double>(s.values.size());
    s.mean = tree_sum(s.values) / n;
    if (s.values.size() < 2) return s;
    std::vector<double> squares;
    for (const double v : s.values) squares.push_back((v - s.mean) * (v - s.mean));
    s.std = std::sqrt(tree_sum(squares) / (n - 1.0));
    s.half_width = student_quantile(0.95, s.values.size() - 1) * standard_error(s);
    return s;
}

double standard_error(const Summary& s) {
    return s.std / std::sqrt(static_cast<double>(s.values.size()));
}

}  // namespace imka

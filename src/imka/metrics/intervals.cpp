#include "imka/metrics/intervals.hpp"

#include <cassert>
#include <cmath>
#include <numbers>
#include <utility>

#include "imka/base/parallel.hpp"

namespace imka {
// With T = sqrt(v) tan(a) the density is proportional to cos(a)^(v-1), a smooth integrand on [0, π/2].
double student_probability(double t, std::size_t freedom) {
    const auto v = static_cast<double>(freedom);
    const auto integral = [v](double end) {
        constexpr int kSteps = 2000;  // Simpson; error far below 1e-12
        const double h = end / kSteps;
        double sum = 1.0 + std::pow(std::cos(end), v - 1.0);
        for (int i = 1; i < kSteps; ++i) sum += (i % 2 == 1 ? 4.0 : 2.0) * std::pow(std::cos(h * i), v - 1.0);
        return sum * h / 3.0;
    };
    return integral(std::atan(t / std::sqrt(v))) / integral(std::numbers::pi / 2.0);
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

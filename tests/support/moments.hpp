// Mean, variance and their standard errors, for statistical tests at 5 sigma.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <vector>

// Factor for the number of draws: IMKA_DRAWS, which scripts/check statistics sets.
inline std::size_t draws_factor() {
    const char* given = std::getenv("IMKA_DRAWS");
    return given == nullptr ? 1 : std::strtoul(given, nullptr, 10);
}

struct Moments {
    double n = 0.0;
    double mean = 0.0;
    double variance = 0.0;        // with n - 1
    double mean_error = 0.0;      // standard error of the mean
    double variance_error = 0.0;  // standard error of the variance, from the fourth moment
};

inline Moments moments(const std::vector<double>& values) {
    Moments m{.n = static_cast<double>(values.size())};
    for (const double v : values) m.mean += v / m.n;
    double fourth = 0.0;
    for (const double v : values) {
        const double square = (v - m.mean) * (v - m.mean);
        m.variance += square / (m.n - 1.0);
        fourth += square * square / m.n;
    }
    m.mean_error = std::sqrt(m.variance / m.n);
    m.variance_error = std::sqrt((fourth - m.variance * m.variance) / m.n);
    return m;
}

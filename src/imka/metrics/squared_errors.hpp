// R² and RMSE of predicted numbers, row by row.
#pragma once

#include <cstdint>

namespace imka {

struct SquaredErrors {
    std::uint64_t rows = 0;
    double errors = 0.0;  // sum of (target - prediction)²
    double mean = 0.0;    // of the targets
    double spread = 0.0;  // sum of (target - mean)²

    void add(double target, double prediction);
    // Square root of the mean squared error. Needs at least one row.
    double rmse() const;
    // 1 - errors / spread. Error{bad_data} if all targets are equal.
    double r2() const;
};

}  // namespace imka

#include "imka/metrics/squared_errors.hpp"

#include <cmath>

#include "imka/base/error.hpp"

namespace imka {

// Welford's method for the spread: it does not lose digits if the mean is large.
void SquaredErrors::add(double target, double prediction) {
    ++rows;
    errors += (target - prediction) * (target - prediction);
    const double before = target - mean;
    mean += before / static_cast<double>(rows);
    spread += before * (target - mean);
}

double SquaredErrors::rmse() const {
    return std::sqrt(errors / static_cast<double>(rows));
}

double SquaredErrors::r2() const {
    if (!(spread > 0.0))
        fail(ErrorCode::bad_data, "R² is undefined: all targets of the tested rows are equal");
    return 1.0 - errors / spread;
}

}  // namespace imka

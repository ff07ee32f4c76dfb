// The error of matrix-vector products taken apart: what a change of the weights would explain, and the rest.
#pragma once

#include <optional>

#include "imka/base/matrix.hpp"

namespace imka {

// All relative to the root of the sum of squares of the exact products.
struct ErrorParts {
    double total = 0.0;  // |y - exact|
    // The part that the best linear map of the inputs explains (effective weights that are wrong), and what
    // it leaves (noise, rounding, clipping): linear² + residual² = total². None where there are not more
    // inputs than rows: the map would explain everything.
    std::optional<double> linear;
    std::optional<double> residual;
    double bias = 0.0;  // root mean square over outputs of their mean error
    double snr_db = 0.0;
};

// With E = Y - XW for n inputs of length p: the least squares D of XD = E explains |XD|² and leaves R = |E|²
// - |XD|². A map of p numbers an output also explains p of n parts of pure noise, so residual² = R n / (n -
// p) and linear² is the rest, at least 0; the same for the bias, whose mean has noise / n. Inputs that are
// always 0 do not count in p. Error{bad_data} where shapes differ or all exact products are 0.
ErrorParts error_parts(MatrixView<const float> x, MatrixView<const float> y, MatrixView<const double> exact);

}  // namespace imka

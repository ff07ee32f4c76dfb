// Splits the error of matrix-vector products into a part explained by changed weights and a residual.
#pragma once

#include <optional>

#include "imka/base/matrix.hpp"

namespace imka {

// All relative to the root of the sum of squares of the exact products.
struct ErrorParts {
    double total = 0.0;  // |y - exact|
    // Part explained by the best linear map of the inputs (wrong effective weights), and the residual
    // (noise, rounding, clipping): linear² + residual² = total². None unless there are more
    // inputs than rows; otherwise the map would explain everything.
    std::optional<double> linear;
    std::optional<double> residual;
    double bias = 0.0;  // root mean square over outputs of their mean error
    double snr_db = 0.0;
};

// With E = Y - XW for n inputs of length p: the least-squares solution D of XD = E explains |XD|² and
// leaves R = |E|² - |XD|². A map with p coefficients per output also explains a share p / n of pure noise,
// so residual² = R n / (n - p) and linear² is the remainder, at least 0. The bias is corrected in the same
// way: its mean has noise / n. Inputs that are always 0 do not count in p. Error{bad_data} if shapes
// differ or all exact products are 0.
ErrorParts error_parts(MatrixView<const float> x, MatrixView<const float> y, MatrixView<const double> exact);

}  // namespace imka

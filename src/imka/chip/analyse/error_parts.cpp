#include "imka/chip/analyse/error_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/linalg/cholesky.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

// Columns of x that are not all zero, as rows.
Matrix<double> used_inputs(MatrixView<const float> x) {
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < x.cols(); ++i) {
        std::size_t v = 0;
        while (v < x.rows() && x(v, i) == 0.0F) ++v;
        if (v < x.rows()) used.push_back(i);
    }
    Matrix<double> out(used.size(), x.rows());
    for (std::size_t k = 0; k < used.size(); ++k) {
        for (std::size_t v = 0; v < x.rows(); ++v) out(k, v) = x(v, used[k]);
    }
    return out;
}

// |XD|² of the least-squares solution from A = X'X and B = X'E: the sum of D * B with A D = B.
double explained(const Matrix<double>& inputs, const Matrix<double>& errors) {
    const std::size_t p = inputs.rows();
    Matrix<double> a(p, p);
    gemm_nt(inputs.view(), inputs.view(), a.view());
    Matrix<double> b(p, errors.rows());
    gemm_nt(inputs.view(), errors.view(), b.view());
    // Linearly dependent inputs give a singular matrix; the ridge is far below the noise of the sums.
    double trace = 0.0;
    for (std::size_t i = 0; i < p; ++i) trace += a(i, i);
    for (std::size_t i = 0; i < p; ++i) a(i, i) += 1e-10 * trace / static_cast<double>(p);
    Matrix<double> d = b;
    solve_positive_definite(a.view(), d.view(), "the inputs' second moments", {.threads = 1});
    double sum = 0.0;
    for (std::size_t k = 0; k < d.values().size(); ++k) sum += d.values()[k] * b.values()[k];
    return sum;
}

// Sum over outputs of the squared mean error, corrected for the noise of the errors.
double squared_bias(const Matrix<double>& errors) {
    const auto n = static_cast<double>(errors.cols());
    if (n < 2.0) return 0.0;
    double sum = 0.0;
    for (std::size_t c = 0; c < errors.rows(); ++c) {
        double mean = 0.0;
        for (const double e : errors.row(c)) mean += e / n;
        double variance = 0.0;
        for (const double e : errors.row(c)) variance += (e - mean) * (e - mean) / (n - 1.0);
        sum += mean * mean - variance / n;
    }
    return std::max(0.0, sum);
}

}  // namespace

ErrorParts error_parts(MatrixView<const float> x, MatrixView<const float> y, MatrixView<const double> exact) {
    if (y.rows() != x.rows() || exact.rows() != x.rows() || y.cols() != exact.cols())
        fail(ErrorCode::bad_data,
             fmt::format("shapes differ: {} inputs, {} x {} products, {} x {} exact products", x.rows(),
                         y.rows(), y.cols(), exact.rows(), exact.cols()));
    Matrix<double> errors(y.cols(), y.rows());
    double signal = 0.0;
    double total = 0.0;
    for (std::size_t v = 0; v < y.rows(); ++v) {
        for (std::size_t c = 0; c < y.cols(); ++c) {
            const double e = double{y(v, c)} - exact(v, c);
            errors(c, v) = e;
            total += e * e;
            signal += exact(v, c) * exact(v, c);
        }
    }
    if (signal == 0.0) fail(ErrorCode::bad_data, "all exact products are 0; the relative error is undefined");
    const auto n = static_cast<double>(x.rows());
    ErrorParts parts{.total = std::sqrt(total / signal),
                     .linear = std::nullopt,
                     .residual = std::nullopt,
                     .bias = std::sqrt(n * squared_bias(errors) / signal),
                     .snr_db = 10.0 * std::log10(signal / total)};
    const auto inputs = used_inputs(x);
    const auto p = static_cast<double>(inputs.rows());
    if (n <= p) return parts;
    const double left = std::clamp((total - explained(inputs, errors)) * n / (n - p), 0.0, total);
    parts.residual = std::sqrt(left / signal);
    parts.linear = std::sqrt((total - left) / signal);
    return parts;
}

}  // namespace imka

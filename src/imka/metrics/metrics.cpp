#include "imka/metrics/metrics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/metrics/gram_gpu.hpp"

namespace imka {
namespace {

constexpr double kConfidence = 0.95;

std::vector<double> sorted(std::span<const double> values) {
    assert(!values.empty());
    std::vector<double> copy(values.begin(), values.end());
    std::sort(copy.begin(), copy.end());
    return copy;
}

double median_of_sorted(std::span<const double> values) {
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace

std::size_t count_right(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted) {
    assert(truth.size() == predicted.size());
    std::size_t right = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) right += truth[i] == predicted[i] ? 1 : 0;
    return right;
}

double accuracy(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted) {
    assert(!truth.empty());
    return static_cast<double>(count_right(truth, predicted)) / static_cast<double>(truth.size());
}

double binomial_error(double share, std::size_t count) {
    assert(count > 0);
    return std::sqrt(share * (1.0 - share) / static_cast<double>(count));
}

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

namespace {

// Products of the rows first, first + 1, ... with all rows.
using ProductRows = std::function<void(std::size_t first, MatrixView<double> out)>;

double gram_error_of(MatrixView<const double> exact, const Exec& exec, const ProductRows& products) {
    const std::size_t n = exact.rows();
    const std::size_t tiles = (n + kTileRows - 1) / kTileRows;
    std::vector<double> difference(tiles);
    std::vector<double> size(tiles);
    parallel_for(exec, tiles, [&](std::size_t t) {
        const std::size_t first = t * kTileRows;
        const std::size_t count = std::min(kTileRows, n - first);
        Matrix<double> product(count, n);
        products(first, product.view());
        for (std::size_t r = 0; r < count; ++r) {
            for (std::size_t c = 0; c < n; ++c) {
                const double k = exact(first + r, c);
                difference[t] += (k - product(r, c)) * (k - product(r, c));
                size[t] += k * k;
            }
        }
    });
    return relative_error({tree_sum(difference), tree_sum(size)});
}

double gram_error_by_gpu(MatrixView<const double> exact, MatrixView<const float> z,
                         MatrixView<const float> other, int gpu) {
    const GpuGramError error(exact, gpu);
    const auto upload = [&](MatrixView<const float> rows) {
        cuda::Buffer<float> buffer(gpu, rows.rows() * rows.cols(), cuda::MemorySource::pooled);
        buffer.upload_rows(rows);
        return buffer;
    };
    const auto first = upload(z);
    if (other.data() == z.data()) return error.error(first.data(), first.data(), z.cols());
    const auto second = upload(other);
    return error.error(first.data(), second.data(), z.cols());
}

}  // namespace

double gram_error(MatrixView<const double> exact, MatrixView<const float> z, const Exec& exec) {
    assert(exact.rows() == z.rows() && exact.cols() == z.rows());
    if (gram_errors_on_gpu(exec)) return gram_error_by_gpu(exact, z, z, exec.device.number);
    const auto wide = copy_of<double>(z);
    return gram_error_of(exact, exec, [&](std::size_t first, MatrixView<double> out) {
        gemm_nt(wide.view().slice_rows(first, out.rows()), wide.view(), out);
    });
}

double gram_error(MatrixView<const double> exact, MatrixView<const float> z, MatrixView<const float> other,
                  const Exec& exec) {
    assert(exact.rows() == z.rows() && z.rows() == other.rows() && z.cols() == other.cols());
    if (gram_errors_on_gpu(exec)) return gram_error_by_gpu(exact, z, other, exec.device.number);
    const auto a = copy_of<double>(z);
    const auto b = copy_of<double>(other);
    return gram_error_of(exact, exec, [&](std::size_t first, MatrixView<double> out) {
        Matrix<double> swapped(out.rows(), out.cols());
        gemm_nt(a.view().slice_rows(first, out.rows()), b.view(), out);
        gemm_nt(b.view().slice_rows(first, out.rows()), a.view(), swapped.view());
        for (std::size_t r = 0; r < out.rows(); ++r) {
            for (std::size_t c = 0; c < out.cols(); ++c) out(r, c) = 0.5 * (out(r, c) + swapped(r, c));
        }
    });
}

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
    if (!std::ranges::all_of(values, [](double v) { return std::isfinite(v); }))
        fail(ErrorCode::numeric,
             "a result is not a finite number: check the inputs and the constants of the chip");
    Summary s{.n = values.size()};
    const auto n = static_cast<double>(s.n);
    s.mean = tree_sum(values) / n;
    if (s.n > 1) {
        std::vector<double> squares;
        squares.reserve(values.size());
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

double median(std::span<const double> values) {
    return median_of_sorted(sorted(values));
}

MedianInterval median_interval(std::span<const double> values) {
    const auto v = sorted(values);
    const auto n = static_cast<double>(v.size());
    // P(fewer than k of n values are below the median) = sum over i < k of C(n, i) / 2^n: the one-sided
    // probability that the k-th smallest value is above the median.
    double term = std::exp2(-n);
    double missed = term;
    std::size_t k = 1;
    while (2 * (k + 1) <= v.size()) {
        const auto i = static_cast<double>(k);
        const double next = term * (n - i + 1.0) / i;
        if (1.0 - 2.0 * (missed + next) < kConfidence) break;
        term = next;
        missed += next;
        ++k;
    }
    return {.median = median_of_sorted(v),
            .low = v[k - 1],
            .high = v[v.size() - k],
            .confidence = 1.0 - 2.0 * missed};
}

double FidelityCell::residual() const {
    return std::log(error.mean / error_measured.mean);
}

double FidelityCell::residual_error() const {
    return std::hypot(error.error() / error.mean, error_measured.error() / error_measured.mean);
}

double FidelityCell::accuracy_difference() const {
    return accuracy && accuracy_measured ? accuracy->mean - accuracy_measured->mean : 0.0;
}

double FidelityCell::accuracy_error() const {
    return accuracy && accuracy_measured ? std::hypot(accuracy->error(), accuracy_measured->error()) : 0.0;
}

bool FidelityCell::accuracy_agrees() const {
    if (!accuracy || !accuracy_measured) return false;
    return std::abs(accuracy_difference()) <= std::max(kAccuracyErrors * accuracy_error(), kAccuracyPoints);
}

double FidelityScore::excess() const {
    return std::sqrt(std::max(0.0, rms * rms - noise * noise));
}

double FidelityScore::accuracy_share() const {
    return accuracy_cells == 0 ? 0.0
                               : static_cast<double>(accuracy_agrees) / static_cast<double>(accuracy_cells);
}

FidelityScore fidelity_score(const std::vector<FidelityCell>& cells, const std::string& dataset,
                             const std::string& kernel) {
    FidelityScore s{.dataset = dataset, .kernel = kernel};
    for (const auto& c : cells) {
        if ((dataset != "all" && c.dataset != dataset) || (kernel != "all" && c.kernel != kernel)) continue;
        ++s.cells;
        s.rms += c.residual() * c.residual();
        s.noise += c.residual_error() * c.residual_error();
        s.bias += c.residual();
        if (!c.accuracy) continue;
        ++s.accuracy_cells;
        s.accuracy_agrees += c.accuracy_agrees() ? 1U : 0U;
    }
    const auto n = static_cast<double>(std::max<std::size_t>(s.cells, 1));
    s.rms = std::sqrt(s.rms / n);
    s.noise = std::sqrt(s.noise / n);
    s.bias /= n;
    return s;
}

}  // namespace imka

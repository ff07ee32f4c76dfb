#include "imka/chip/program/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/region.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/readout/applied.hpp"
#include "imka/ops/readout/row_sums.hpp"

namespace imka {
namespace {

std::vector<double> magnitudes(MatrixView<const float> x) {
    std::vector<double> out;
    out.reserve(x.rows() * x.cols());
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
            if (!std::isfinite(x(r, c)))
                fail(ErrorCode::bad_data,
                     fmt::format("calibration input {}, value {}: {} is not finite", r, c, x(r, c)));
            out.push_back(std::abs(double{x(r, c)}));
        }
    }
    return out;
}

double quantile_of(std::vector<double> values, double share) {
    const auto last = static_cast<double>(values.size() - 1);
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::ceil(share * last));
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

double root_mean_square(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double v : values) sum += v * v;
    return std::sqrt(sum / static_cast<double>(values.size()));
}

// Inputs of one sign that have a pulse, and the lengths of the pulses.
struct Pulses {
    std::vector<std::uint32_t> rows;
    std::vector<double> durations;  // with the sign

    void clear() {
        rows.clear();
        durations.clear();
    }
    void add(std::size_t row, double duration) {
        rows.push_back(static_cast<std::uint32_t>(row));
        durations.push_back(duration);
    }
};

// Largest sum over phases and slices of each column, for weights scaled to a column maximum of 1.
class PhaseMaxima {
public:
    PhaseMaxima(const CoreSpec& spec, const Matrix<float>& relative)
        : spec_(spec), sums_(relative.cols()), maxima_(relative.cols(), 0.0) {
        if (spec.read_mode == ReadMode::one_phase) {
            planes_.push_back(relative);
            return;
        }
        // A weight of the other polarity adds 0, which changes no sum.
        auto plus = relative;
        auto minus = relative;
        for (float& w : plus.values()) w = std::max(w, 0.0F);
        for (float& w : minus.values()) w = std::min(w, 0.0F);
        planes_.push_back(std::move(plus));
        planes_.push_back(std::move(minus));
    }

    void add(std::span<const std::int32_t> steps) {
        const bool one_phase = spec_.read_mode == ReadMode::one_phase;
        for (int slice = 0; slice < slice_count(spec_.dac); ++slice) {
            for (auto& pulses : pulses_) pulses.clear();
            for (std::size_t i = 0; i < steps.size(); ++i) {
                const double duration = slice_duration(spec_.dac, steps[i], slice);
                if (!(duration > 0.0)) continue;
                const bool positive = steps[i] > 0;
                pulses_[one_phase || positive ? 0 : 1].add(i, positive ? duration : -duration);
            }
            for (const auto& pulses : pulses_) {
                for (const auto& plane : planes_) add_phase(pulses, plane);
            }
        }
    }
    const std::vector<double>& maxima() const { return maxima_; }

private:
    void add_phase(const Pulses& pulses, const Matrix<float>& plane) {
        ops::row_sums(pulses.rows, pulses.durations, plane.view(), sums_);
        for (std::size_t c = 0; c < maxima_.size(); ++c)
            maxima_[c] = std::max(maxima_[c], std::abs(sums_[c]));
    }

    const CoreSpec& spec_;
    std::vector<Matrix<float>> planes_;  // of weights: all, or by polarity
    std::array<Pulses, 2> pulses_;       // by sign; all in the first for one phase
    std::vector<double> sums_;
    std::vector<double> maxima_;
};

// Squared error of a range, summed over inputs and outputs.
double range_error(const CoreSpec& spec, double g_max_us, MatrixView<const float> weights,
                   MatrixView<const float> x, double range) {
    Matrix<float> lost(x.rows(), x.cols());
    std::vector<std::int32_t> steps(x.cols());
    for (std::size_t v = 0; v < x.rows(); ++v) {
        quantize_inputs(spec.dac, x.row(v), range, steps);
        for (std::size_t i = 0; i < x.cols(); ++i)
            lost(v, i) = static_cast<float>(range * steps[i] / spec.dac.levels - double{x(v, i)});
    }
    double error = 0.0;
    const auto errors = exact_products(lost.view(), weights);
    for (const double e : errors.values()) error += e * e;
    const double conversions = spec.read_mode == ReadMode::four_phase ? 4.0 : 1.0;
    const double rounding = spec.adc.rounding == AdcRounding::none ? 0.0 : 1.0 / 12.0;
    double slices = 0.0;
    for (int s = 0; s < slice_count(spec.dac); ++s) slices += std::pow(slice_weight(spec.dac, s), 2);
    const double counts = conversions * slices * (spec.adc.noise_counts * spec.adc.noise_counts + rounding);
    const auto column_us = calibrate_columns(spec, g_max_us, weights, x, range);
    const auto mapped = map_weights(weights, column_us);
    for (const double w : mapped.weight_per_us)
        error += static_cast<double>(x.rows()) * counts * std::pow(w * range / spec.adc.counts_per_us, 2);
    return error;
}

double searched_range(const CoreSpec& spec, double g_max_us, MatrixView<const float> weights,
                      MatrixView<const float> x, double largest) {
    constexpr int kTries = 40;  // down to 0.95^39 = 0.135 of the largest input
    double best = largest;
    double least = std::numeric_limits<double>::infinity();
    double range = largest;
    for (int k = 0; k < kTries; ++k, range *= 0.95) {
        const double error = range_error(spec, g_max_us, weights, x, range);
        if (error < least) {
            least = error;
            best = range;
        }
    }
    return best;
}

double chosen_range(const CoreSpec& spec, double g_max_us, MatrixView<const float> weights,
                    MatrixView<const float> x, const CalibrationConfig& config) {
    const auto sizes = magnitudes(x);
    const double largest = sizes.empty() ? 0.0 : *std::max_element(sizes.begin(), sizes.end());
    if (largest == 0.0) fail(ErrorCode::bad_data, "all calibration inputs are 0; expected non-zero values");
    if (config.range) return *config.range;
    switch (config.input_range) {
        case InputRangeRule::quantile: {
            // A quantile of mostly zeros would give a range of 0.
            const double range = quantile_of(sizes, config.quantile);
            return range > 0.0 ? range : largest;
        }
        case InputRangeRule::deviation:
            return std::min(largest, config.deviations * root_mean_square(sizes));
        case InputRangeRule::search:
            return searched_range(spec, g_max_us, weights, x, largest);
        case InputRangeRule::max:
            break;
    }
    return largest;
}

AffineColumn least_squares(MatrixView<const double> counts, MatrixView<const double> exact,
                           std::size_t column, double output_step) {
    const auto n = static_cast<double>(counts.rows());
    double mean_c = 0.0;
    double mean_y = 0.0;
    for (std::size_t v = 0; v < counts.rows(); ++v) {
        mean_c += counts(v, column) / n;
        mean_y += exact(v, column) / output_step / n;
    }
    double variance = 0.0;
    double covariance = 0.0;
    for (std::size_t v = 0; v < counts.rows(); ++v) {
        const double c = counts(v, column) - mean_c;
        variance += c * c;
        covariance += c * (exact(v, column) / output_step - mean_y);
    }
    const double scale = variance > 0.0 ? covariance / variance : 0.0;
    return {.scale = scale, .offset = mean_y - scale * mean_c};
}

void set_output_steps(const AffineConfig& config, const std::vector<double>& largest, RegionScale& scale) {
    const double most =
        config.range == OutputRange::largest
            ? *std::ranges::max_element(largest)
            : std::accumulate(largest.begin(), largest.end(), 0.0) / static_cast<double>(largest.size());
    if (most == 0.0) return;
    const int bits = config.output_bits == 0 ? 8 : config.output_bits;
    scale.output_step = config.headroom * most / ((1 << (bits - 1)) - 1);
}

Fields fields(CalibrationConfig& c) {
    return {
        field("calibration inputs", c.inputs, range::between(1, 1e12, "rows drawn from the given inputs")),
        field("quantile", c.quantile, range::positive_share("quantile of |x| used as input range")),
        field("deviations", c.deviations, range::positive("root mean squares of x that are the input range")),
        field("input range", c.range, range::positive("used instead of a rule")),
    };
}

}  // namespace

void validate(const CalibrationConfig& config) {
    CalibrationConfig copy = config;
    check_ranges(fields(copy));
}

Matrix<float> calibration_inputs(const CalibrationConfig& config, MatrixView<const float> x,
                                 std::uint64_t seed) {
    validate(config);
    const std::size_t count = std::min(config.inputs, x.rows());
    Matrix<float> out(count, x.cols());
    if (x.rows() > std::numeric_limits<std::uint32_t>::max())
        fail(ErrorCode::bad_data,
             fmt::format("{} inputs to choose from; expected at most 2^32 - 1", x.rows()));
    const auto order = permutation(seed, Stream::chip_calibration, static_cast<std::uint32_t>(x.rows()));
    for (std::size_t v = 0; v < count; ++v) {
        const auto row = x.row(order[v]);
        std::copy(row.begin(), row.end(), out.row(v).begin());
    }
    return out;
}

std::vector<double> calibrate_columns(const CoreSpec& spec, double g_max_us, MatrixView<const float> weights,
                                      MatrixView<const float> x, double input_range) {
    assert(x.cols() == weights.rows());
    std::vector<double> column_us(weights.cols(), g_max_us);
    if (spec.adc.max_count == 0) return column_us;
    // With 1 uS for the largest weight of each column, targets equal relative weights.
    const auto mapped = map_weights(weights, std::vector<double>(weights.cols(), 1.0));
    Matrix<float> relative(weights.rows(), weights.cols());
    std::transform(mapped.plus_us.values().begin(), mapped.plus_us.values().end(),
                   mapped.minus_us.values().begin(), relative.values().begin(), std::minus<>());
    PhaseMaxima sums(spec, relative);
    std::vector<std::int32_t> steps(x.cols());
    for (std::size_t v = 0; v < x.rows(); ++v) {
        quantize_inputs(spec.dac, x.row(v), input_range, steps);
        sums.add(steps);
    }
    for (std::size_t c = 0; c < column_us.size(); ++c) {
        const double most = spec.adc.fill * spec.adc.max_count / spec.adc.counts_per_us;
        if (sums.maxima()[c] * g_max_us > most) column_us[c] = most / sums.maxima()[c];
    }
    return column_us;
}

RegionScale calibrate_scale(const ChipSpec& chip, MatrixView<const float> weights, MatrixView<const float> x,
                            const CalibrationConfig& config) {
    const auto& spec = chip.core;
    const double g_max_us = chip.device.g_max_us;
    validate(config);
    if (x.cols() != weights.rows())
        fail(ErrorCode::bad_data, fmt::format("calibration inputs of length {} for weights of {} inputs",
                                              x.cols(), weights.rows()));
    RegionScale scale;
    scale.input_range = chosen_range(spec, g_max_us, weights, x, config);
    scale.column_us = config.columns ? calibrate_columns(spec, g_max_us, weights, x, scale.input_range)
                                     : std::vector<double>(weights.cols(), g_max_us);
    const auto applied = applied_inputs(spec.dac, x, scale.input_range);
    set_output_steps(spec.affine, largest_products(exact_products(applied.view(), weights)), scale);
    return scale;
}

Matrix<double> second_moment(MatrixView<const float> x) {
    const std::size_t n = x.cols();
    Matrix<double> sum(n, n);
    Matrix<float> part(n, n);
    for (std::size_t first = 0; first < x.rows(); first += kTileRows) {
        syrk_tn(x.slice_rows(first, std::min(kTileRows, x.rows() - first)), part.view());
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t j = i; j < n; ++j) sum(i, j) += double{part(i, j)};
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = i; j < n; ++j) sum(j, i) = sum(i, j) /= static_cast<double>(x.rows());
    }
    return sum;
}

std::vector<double> product_limits(const ProductLimit& limit, MatrixView<const float> weights,
                                   MatrixView<const double> second_moment) {
    if (limit.deviations == 0.0) return {};
    std::vector<double> squares(weights.cols());  // mean square of each column's products
    for (std::size_t i = 0; i < weights.rows(); ++i) {
        for (std::size_t j = 0; j < weights.rows(); ++j) {
            for (std::size_t c = 0; c < weights.cols(); ++c)
                squares[c] += second_moment(i, j) * weights(i, c) * weights(j, c);
        }
    }
    const double mean =
        std::accumulate(squares.begin(), squares.end(), 0.0) / static_cast<double>(squares.size());
    if (!(mean > 0.0)) return {};
    // A column whose products are all 0 gets the unit of the core.
    const auto unit = [&](double square) {
        return std::sqrt(limit.unit == LimitUnit::core || !(square > 0.0) ? mean : square);
    };
    std::ranges::transform(squares, squares.begin(), [&](double s) { return limit.deviations * unit(s); });
    return squares;
}

void fit_affine(MatrixView<const double> counts, MatrixView<const double> exact, ProgrammedRegion& region) {
    assert(counts.rows() == exact.rows() && counts.cols() == exact.cols() && counts.cols() == region.cols());
    if (counts.rows() < 2)
        fail(ErrorCode::bad_data,
             fmt::format("{} calibration inputs; least squares needs at least 2", counts.rows()));
    for (std::size_t c = 0; c < counts.cols(); ++c) {
        auto& column = region.affine.columns[c];
        const auto fitted = least_squares(counts, exact, c, region.affine.output_step);
        column.scale = fitted.scale;
        column.offset = fitted.offset;
    }
}

Matrix<float> applied_inputs(const DacConfig& config, MatrixView<const float> x, double range) {
    const ops::StepScale scale{.range = range,
                               .levels = config.levels,
                               .rounding = config.rounding == InputRounding::nearest
                                               ? ops::StepRounding::nearest
                                               : ops::StepRounding::truncate};
    Matrix<float> out(x.rows(), x.cols());
    for (std::size_t v = 0; v < x.rows(); ++v) {
        if (ops::apply_row(scale, x.row(v), out.row(v))) continue;
        const auto row = x.row(v);
        const auto bad = std::ranges::find_if(row, [](float value) { return !std::isfinite(value); });
        fail(ErrorCode::bad_data, fmt::format("input {}: {} is not finite", bad - row.begin(), *bad));
    }
    return out;
}

Matrix<double> exact_products(MatrixView<const float> x, MatrixView<const float> weights) {
    assert(x.cols() == weights.rows());
    Matrix<double> y(x.rows(), weights.cols());
    gemm_nt(copy_of<double>(x).view(), transposed<double>(weights).view(), y.view());
    return y;
}

std::vector<double> largest_products(const Matrix<double>& products) {
    std::vector<double> largest(products.cols());
    for (std::size_t v = 0; v < products.rows(); ++v) {
        for (std::size_t c = 0; c < largest.size(); ++c)
            largest[c] = std::max(largest[c], std::abs(products(v, c)));
    }
    return largest;
}

double signal_to_noise_db(MatrixView<const float> y, MatrixView<const double> exact) {
    assert(y.rows() == exact.rows() && y.cols() == exact.cols());
    double signal = 0.0;
    double noise = 0.0;
    for (std::size_t r = 0; r < y.rows(); ++r) {
        for (std::size_t c = 0; c < y.cols(); ++c) {
            const double e = double{y(r, c)} - exact(r, c);
            signal += exact(r, c) * exact(r, c);
            noise += e * e;
        }
    }
    return 10.0 * std::log10(signal / noise);
}

}  // namespace imka

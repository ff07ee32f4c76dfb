#include "imka/chip/program/programming_measure.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>

#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

constexpr std::uint64_t kPhases = 4;

// Transpose of f(row, column) over an array.
template <class F>
Matrix<float> transposed(std::size_t rows, std::size_t cols, F f) {
    Matrix<float> out(cols, rows);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) out(c, r) = f(r, c);
    }
    return out;
}

template <class F>
Matrix<float> mapped(MatrixView<const float> x, F f) {
    Matrix<float> out(x.rows(), x.cols());
    for (std::size_t r = 0; r < x.rows(); ++r)
        std::transform(x.row(r).begin(), x.row(r).end(), out.row(r).begin(), f);
    return out;
}

float positive(float x) {
    return std::max(x, 0.0F);
}
float negative(float x) {
    return std::max(-x, 0.0F);
}
float squared(float x) {
    return x * x;
}

const Exec kOneThread{.threads = 1};

// Charge of a phase for a batch of products, and its variance from device noise.
struct Phase {
    Matrix<float> charge_us;
    Matrix<float> variance;
};

Phase phase_of(const Matrix<float>& durations, const Matrix<float>& g_us, const Matrix<float>& variance) {
    Phase p{{durations.rows(), g_us.rows()}, {durations.rows(), g_us.rows()}};
    gemm_nt_rows(durations.view(), g_us.view(), kOneThread, p.charge_us.view());
    gemm_nt_rows(mapped(durations.view(), squared).view(), variance.view(), kOneThread, p.variance.view());
    return p;
}

// Products of one region, numbered from `first`.
struct Batch {
    const ProgrammedRegion& region;
    std::uint64_t first;
};

std::uint64_t conversion_index(const Batch& t, std::size_t row, std::size_t column, std::uint64_t phase) {
    const std::uint64_t number = first_column(t.region.spec, t.region.ids) + column;
    return ((t.first + row) << 32U) | (number * kPhases + phase);
}

double noise_counts(const Batch& t, const AdcColumn& column, double variance, std::uint64_t index) {
    const double device = t.region.spec.adc.counts_per_us * column.gain;
    const double converter = t.region.spec.adc.noise_counts;
    const double power = device * device * variance + converter * converter;
    return power > 0.0 ? std::sqrt(power) * normal(t.region.ids.seed, Stream::chip_tuning_product, index)
                       : 0.0;
}

// Adds sign * counts of a phase, in uS.
template <class Convert>
void add_phase(const Batch& t, const Phase& phase, std::uint64_t number, double sign, Convert convert,
               MatrixView<float> out) {
    const double scale = t.region.spec.adc.counts_per_us;
    for (std::size_t v = 0; v < out.rows(); ++v) {
        for (std::size_t c = 0; c < out.cols(); ++c) {
            const std::uint64_t index = conversion_index(t, v, c, number);
            const double noise = noise_counts(t, t.region.adc[c], phase.variance(v, c), index);
            const double counts =
                convert(t.region.spec.adc, t.region.adc[c], scale * phase.charge_us(v, c), noise);
            out(v, c) += static_cast<float>(sign * counts / scale);
        }
    }
}

void measure_four(const Batch& t, const Crossbar& bar, MatrixView<const float> x, MatrixView<float> out) {
    const auto plus = mapped(x, positive);
    const auto minus = mapped(x, negative);
    add_phase(t, phase_of(plus, bar.plus_us, bar.plus_variance), 0, +1.0, convert, out);
    add_phase(t, phase_of(minus, bar.minus_us, bar.minus_variance), 1, +1.0, convert, out);
    add_phase(t, phase_of(plus, bar.minus_us, bar.minus_variance), 2, -1.0, convert, out);
    add_phase(t, phase_of(minus, bar.plus_us, bar.plus_variance), 3, -1.0, convert, out);
}

void measure_one(const Batch& t, const Crossbar& bar, MatrixView<const float> x, MatrixView<float> out) {
    const auto durations = mapped(x, std::identity());
    auto p = phase_of(durations, bar.plus_us, bar.plus_variance);
    const auto m = phase_of(durations, bar.minus_us, bar.minus_variance);
    const auto combine = [](Matrix<float>& a, const Matrix<float>& b, float sign) {
        for (std::size_t i = 0; i < a.values().size(); ++i) a.values()[i] += sign * b.values()[i];
    };
    combine(p.charge_us, m.charge_us, -1.0F);
    combine(p.variance, m.variance, 1.0F);
    const auto convert_either = [](const AdcConfig& config, const AdcColumn& column, double charge,
                                   double noise) {
        return convert_signed(config, column, charge, {.counts = noise});
    };
    add_phase(t, p, 0, +1.0, convert_either, out);
}

}  // namespace

Matrix<float> tuning_inputs(const ProgrammedRegion& region, double deviation, std::uint64_t first,
                            std::size_t count) {
    Matrix<float> x(count, region.rows());
    fill_normal(region.ids.seed, Stream::chip_tuning_input, first * x.cols(), x.values());
    const double levels = region.spec.dac.levels;
    for (auto& v : x.values())
        v = static_cast<float>(std::clamp(std::nearbyint(v * deviation * levels), -levels, levels) / levels);
    return x;
}

Crossbar crossbar_of(const ProgrammedRegion& region, const ReadTime& time) {
    const auto plus = conductances_at(region.device, region.plus, time);
    const auto minus = conductances_at(region.device, region.minus, time);
    const std::size_t rows = region.rows();
    const std::size_t cols = region.cols();
    const auto values = [&](const Matrix<float>& m) {
        return transposed(rows, cols, [&](std::size_t r, std::size_t c) { return m(r, c); });
    };
    const auto squares = [&](const Matrix<float>& m) {
        return transposed(rows, cols, [&](std::size_t r, std::size_t c) { return squared(m(r, c)); });
    };
    return {values(plus.g_us), values(minus.g_us), squares(plus.fresh_sd_us), squares(minus.fresh_sd_us)};
}

Matrix<float> measure_products(const ProgrammedRegion& region, const Crossbar& crossbar,
                               const Matrix<float>& inputs, std::uint64_t first, const Exec& exec) {
    assert(region.adc.size() == crossbar.plus_us.rows() && inputs.cols() == crossbar.plus_us.cols());
    Matrix<float> out(inputs.rows(), region.adc.size());
    const auto measure = region.spec.read_mode == ReadMode::four_phase ? measure_four : measure_one;
    const std::size_t batches = (inputs.rows() + kTileRows - 1) / kTileRows;
    parallel_for(exec, batches, [&](std::size_t i) {
        const std::size_t begin = i * kTileRows;
        const std::size_t count = std::min(kTileRows, inputs.rows() - begin);
        measure({region, first + begin}, crossbar, inputs.view().slice_rows(begin, count),
                out.view().slice_rows(begin, count));
    });
    return out;
}

Matrix<float> exact_currents(const Matrix<float>& inputs, const Matrix<float>& net_us, const Exec& exec) {
    assert(inputs.cols() == net_us.cols());
    Matrix<float> out(inputs.rows(), net_us.rows());
    gemm_nt_rows(inputs.view(), net_us.view(), exec, out.view());
    return out;
}

std::vector<AffineColumn> fit_columns(const Matrix<float>& measured, const Matrix<float>& exact) {
    assert(measured.rows() == exact.rows() && measured.cols() == exact.cols());
    const std::size_t cols = measured.cols();
    const auto n = static_cast<double>(measured.rows());
    std::vector<std::array<double, 4>> sums(cols);  // y, t, y², y t
    for (std::size_t v = 0; v < measured.rows(); ++v) {
        for (std::size_t c = 0; c < cols; ++c) {
            const double y = measured(v, c);
            const double t = exact(v, c);
            auto& s = sums[c];
            s[0] += y;
            s[1] += t;
            s[2] += y * y;
            s[3] += y * t;
        }
    }
    std::vector<AffineColumn> out;
    for (const auto& s : sums) {
        const double variance = s[2] - s[0] * s[0] / n;
        const double scale = variance > 0.0 ? (s[3] - s[0] * s[1] / n) / variance : 0.0;
        out.push_back({.scale = scale, .offset = (s[1] - scale * s[0]) / n});
    }
    return out;
}

double relative_error(const Matrix<float>& measured, const Matrix<float>& exact,
                      std::span<const AffineColumn> columns) {
    double error = 0.0;
    double size = 0.0;
    for (std::size_t v = 0; v < measured.rows(); ++v) {
        for (std::size_t c = 0; c < measured.cols(); ++c) {
            const double t = exact(v, c);
            const double e = columns[c].scale * measured(v, c) + columns[c].offset - t;
            error += e * e;
            size += t * t;
        }
    }
    return size > 0.0 ? std::sqrt(error / size) : 0.0;
}

}  // namespace imka

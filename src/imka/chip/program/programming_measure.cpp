#include "imka/chip/program/programming_measure.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

constexpr std::uint64_t kPhases = 4;

// The transpose of f(row, column) over an array.
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

// Charge of a phase for a tile of products, and the variance that the noise of devices gives it.
struct Phase {
    Matrix<float> charge_us;
    Matrix<float> variance;
};

Phase phase_of(const Matrix<float>& durations, const Matrix<float>& g_us, const Matrix<float>& variance) {
    Phase p{{durations.rows(), g_us.rows()}, {durations.rows(), g_us.rows()}};
    gemm_nt(durations.view(), g_us.view(), p.charge_us.view());
    gemm_nt(mapped(durations.view(), squared).view(), variance.view(), p.variance.view());
    return p;
}

// A tile of products on one core.
struct Tile {
    const ProgrammedCore& core;
    std::uint64_t first;  // product of the tile
};

std::uint64_t conversion_index(const Tile& t, std::size_t row, std::size_t column, std::uint64_t phase) {
    const auto cols = static_cast<std::uint64_t>(t.core.spec.cols);
    const std::uint64_t number = std::uint64_t{t.core.ids.core} * cols + column;
    return ((t.first + row) << 32U) | (number * kPhases + phase);
}

double noise_counts(const Tile& t, const AdcColumn& column, double variance, std::uint64_t index) {
    const double device = t.core.spec.adc.counts_per_us * column.gain;
    const double converter = t.core.spec.adc.noise_counts;
    const double power = device * device * variance + converter * converter;
    return power > 0.0 ? std::sqrt(power) * normal(t.core.ids.seed, Stream::chip_tuning_product, index) : 0.0;
}

// Adds sign * counts of a phase, in uS.
template <class Convert>
void add_phase(const Tile& t, const Phase& phase, std::uint64_t number, double sign, Convert convert,
               MatrixView<float> out) {
    const double scale = t.core.spec.adc.counts_per_us;
    for (std::size_t v = 0; v < out.rows(); ++v) {
        for (std::size_t c = 0; c < out.cols(); ++c) {
            const std::uint64_t index = conversion_index(t, v, c, number);
            const double noise = noise_counts(t, t.core.adc[c], phase.variance(v, c), index);
            const double counts =
                convert(t.core.spec.adc, t.core.adc[c], scale * phase.charge_us(v, c), noise);
            out(v, c) += static_cast<float>(sign * counts / scale);
        }
    }
}

void measure_four(const Tile& t, const Crossbar& bar, const Matrix<float>& x, MatrixView<float> out) {
    const auto plus = mapped(x.view(), positive);
    const auto minus = mapped(x.view(), negative);
    add_phase(t, phase_of(plus, bar.plus_us, bar.plus_variance), 0, +1.0, convert, out);
    add_phase(t, phase_of(minus, bar.minus_us, bar.minus_variance), 1, +1.0, convert, out);
    add_phase(t, phase_of(plus, bar.minus_us, bar.minus_variance), 2, -1.0, convert, out);
    add_phase(t, phase_of(minus, bar.plus_us, bar.plus_variance), 3, -1.0, convert, out);
}

void measure_one(const Tile& t, const Crossbar& bar, const Matrix<float>& x, MatrixView<float> out) {
    auto p = phase_of(x, bar.plus_us, bar.plus_variance);
    const auto m = phase_of(x, bar.minus_us, bar.minus_variance);
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

std::size_t tiles_of(std::size_t rows) {
    return (rows + kTileRows - 1) / kTileRows;
}

// Rows of tile i, padded with zeros to the full height, so that every row sees the same instructions.
Matrix<float> tile_rows(const Matrix<float>& x, std::size_t i) {
    Matrix<float> tile(kTileRows, x.cols());
    const std::size_t first = i * kTileRows;
    for (std::size_t r = first; r < std::min(first + kTileRows, x.rows()); ++r)
        std::copy(x.row(r).begin(), x.row(r).end(), tile.row(r - first).begin());
    return tile;
}

// out's rows of tile i are those of `tile`.
void put_tile(const Matrix<float>& tile, std::size_t i, Matrix<float>& out) {
    const std::size_t first = i * kTileRows;
    for (std::size_t r = first; r < std::min(first + kTileRows, out.rows()); ++r)
        std::copy(tile.row(r - first).begin(), tile.row(r - first).end(), out.row(r).begin());
}

}  // namespace

Matrix<float> tuning_inputs(const ProgrammedCore& core, double deviation, std::uint64_t first,
                            std::size_t count) {
    Matrix<float> x(count, core.used_rows());
    fill_normal(core.ids.seed, Stream::chip_tuning_input, first * x.cols(), x.values());
    const double levels = core.spec.dac.levels;
    for (auto& v : x.values())
        v = static_cast<float>(std::clamp(std::nearbyint(v * deviation * levels), -levels, levels) / levels);
    return x;
}

Crossbar crossbar_of(const ProgrammedCore& core, const ReadTime& time) {
    const auto plus = conductances_at(core.device, core.plus, time);
    const auto minus = conductances_at(core.device, core.minus, time);
    const std::size_t rows = core.used_rows();
    const std::size_t cols = core.used_cols();
    const auto values = [&](const Matrix<float>& m) {
        return transposed(rows, cols, [&](std::size_t r, std::size_t c) { return m(r, c); });
    };
    const auto squares = [&](const Matrix<float>& m) {
        return transposed(rows, cols, [&](std::size_t r, std::size_t c) { return squared(m(r, c)); });
    };
    return {values(plus.g_us), values(minus.g_us), squares(plus.fresh_sd_us), squares(minus.fresh_sd_us)};
}

Matrix<float> measure_products(const Exec& exec, const ProgrammedCore& core, const Crossbar& crossbar,
                               const Matrix<float>& inputs, std::uint64_t first) {
    assert(core.adc.size() == crossbar.plus_us.rows() && inputs.cols() == crossbar.plus_us.cols());
    Matrix<float> out(inputs.rows(), core.adc.size());
    const auto measure = core.spec.read_mode == ReadMode::four_phase ? measure_four : measure_one;
    parallel_for(exec, tiles_of(inputs.rows()), [&](std::size_t i) {
        Matrix<float> part(kTileRows, core.adc.size());
        measure({core, first + i * kTileRows}, crossbar, tile_rows(inputs, i), part.view());
        put_tile(part, i, out);
    });
    return out;
}

Matrix<float> exact_currents(const Exec& exec, const Matrix<float>& inputs, const Matrix<float>& net_us) {
    assert(inputs.cols() == net_us.cols());
    Matrix<float> out(inputs.rows(), net_us.rows());
    parallel_for(exec, tiles_of(inputs.rows()), [&](std::size_t i) {
        Matrix<float> part(kTileRows, net_us.rows());
        gemm_nt(tile_rows(inputs, i).view(), net_us.view(), part.view());
        put_tile(part, i, out);
    });
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

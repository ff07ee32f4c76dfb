#include "imka/chip/region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>

#include "imka/base/error.hpp"

namespace imka {
namespace {

std::vector<double> column_maxima(MatrixView<const float> weights) {
    std::vector<double> maxima(weights.cols(), 0.0);
    for (std::size_t r = 0; r < weights.rows(); ++r) {
        for (std::size_t c = 0; c < weights.cols(); ++c) {
            if (!std::isfinite(weights(r, c)))
                fail(ErrorCode::bad_data,
                     fmt::format("weight of input {}, output {}: {} is not finite", r, c, weights(r, c)));
            maxima[c] = std::max(maxima[c], std::abs(double{weights(r, c)}));
        }
    }
    return maxima;
}

std::vector<double> column_sums(MatrixView<const float> g) {
    std::vector<double> sums(g.cols(), 0.0);
    for (std::size_t r = 0; r < g.rows(); ++r) {
        for (std::size_t c = 0; c < g.cols(); ++c) sums[c] += std::abs(double{g(r, c)});
    }
    return sums;
}

double ratio(double reference, double now) {
    if (reference == 0.0) return 1.0;
    return reference / std::max(now, 1e-4 * reference);
}

void check_positive(std::string_view field, double value) {
    if (!std::isfinite(value) || value <= 0.0)
        fail(ErrorCode::bad_config, fmt::format("{}: {}; it must be > 0", field, value));
}

std::string origin_text(const RegionIds& ids) {
    if (ids.row == 0 && ids.col == 0) return {};
    return fmt::format(" at row {}, column {}", ids.row, ids.col);
}

void check_fits(const CoreSpec& spec, MatrixView<const float> weights, const RegionScale& scale,
                const RegionIds& ids) {
    const auto rows = static_cast<std::size_t>(spec.rows);
    const auto cols = static_cast<std::size_t>(spec.cols);
    if (ids.row + weights.rows() > rows || ids.col + weights.cols() > cols)
        fail(ErrorCode::bad_config,
             fmt::format("weights of {} inputs and {} outputs{}; a core has {} rows and {} columns",
                         weights.rows(), weights.cols(), origin_text(ids), rows, cols));
    if (scale.column_us.size() != weights.cols())
        fail(ErrorCode::bad_config,
             fmt::format("{} column conductances for weights of {} outputs; expected one per output",
                         scale.column_us.size(), weights.cols()));
    if (!scale.output_limits.empty() && scale.output_limits.size() != weights.cols())
        fail(ErrorCode::bad_config,
             fmt::format("{} output limits for weights of {} outputs; expected one per output",
                         scale.output_limits.size(), weights.cols()));
    for (const double limit : scale.output_limits) check_positive("output limit", limit);
}

// Numbers of devices and conversions stay below 2^32, so that 64 bits also hold the product number.
void check_numbers(const CoreSpec& spec, const RegionIds& ids) {
    const auto cells = static_cast<double>(spec.rows) * spec.cols;
    if ((ids.core + 1.0) * std::max(2.0 * cells, 64.0 * spec.cols) > 0x1p32)
        fail(ErrorCode::bad_config,
             fmt::format("core {} of {} x {} cells: too many devices to number; core times "
                         "cells must be below 2^31",
                         ids.core, spec.rows, spec.cols));
}

Matrix<float> net_us(const ProgrammedRegion& region, const ReadTime& time) {
    auto plus = conductances_at(region.device, region.plus, time).g_us;
    const auto minus = conductances_at(region.device, region.minus, time).g_us;
    std::transform(plus.values().begin(), plus.values().end(), minus.values().begin(), plus.values().begin(),
                   std::minus<>());
    return plus;
}

}  // namespace

MappedWeights map_weights(MatrixView<const float> weights, std::span<const double> column_us) {
    assert(column_us.size() == weights.cols());
    const auto maxima = column_maxima(weights);
    MappedWeights out{{weights.rows(), weights.cols()}, {weights.rows(), weights.cols()}, {}};
    for (std::size_t c = 0; c < weights.cols(); ++c) {
        if (!std::isfinite(column_us[c]) || column_us[c] <= 0.0)
            fail(ErrorCode::bad_config,
                 fmt::format("conductance of column {}: {} uS; it must be > 0", c, column_us[c]));
        out.weight_per_us.push_back(maxima[c] / column_us[c]);
    }
    for (std::size_t r = 0; r < weights.rows(); ++r) {
        for (std::size_t c = 0; c < weights.cols(); ++c) {
            const float w = weights(r, c);
            if (w == 0.0F) continue;
            const auto g = static_cast<float>(std::abs(double{w}) / maxima[c] * column_us[c]);
            (w > 0.0F ? out.plus_us : out.minus_us)(r, c) = g;
        }
    }
    return out;
}

std::vector<double> drift_compensation(DriftCompensation kind, MatrixView<const float> reference,
                                       MatrixView<const float> now) {
    assert(reference.rows() == now.rows() && reference.cols() == now.cols());
    std::vector<double> factors(now.cols(), 1.0);
    if (kind == DriftCompensation::none) return factors;
    const auto before = column_sums(reference);
    const auto after = column_sums(now);
    if (kind == DriftCompensation::global) {
        const double sum_before = std::accumulate(before.begin(), before.end(), 0.0);
        const double sum_after = std::accumulate(after.begin(), after.end(), 0.0);
        std::fill(factors.begin(), factors.end(), ratio(sum_before, sum_after));
    } else {
        std::transform(before.begin(), before.end(), after.begin(), factors.begin(), ratio);
    }
    return factors;
}

DeviceIds device_ids(const CoreSpec& spec, const RegionIds& ids, std::uint64_t polarity) {
    check_numbers(spec, ids);
    const auto rows = static_cast<std::uint64_t>(spec.rows);
    const auto cols = static_cast<std::uint64_t>(spec.cols);
    return {.seed = ids.seed,
            .first = (2 * std::uint64_t{ids.core} + polarity) * rows * cols + ids.row * cols + ids.col,
            .stride = cols};
}

std::uint64_t first_input(const CoreSpec& spec, const RegionIds& ids) {
    return std::uint64_t{ids.core} * static_cast<std::uint64_t>(spec.rows) + ids.row;
}

std::uint64_t first_column(const CoreSpec& spec, const RegionIds& ids) {
    return std::uint64_t{ids.core} * static_cast<std::uint64_t>(spec.cols) + ids.col;
}

ProgrammedRegion program_region(const ChipSpec& chip, MatrixView<const float> weights,
                                const RegionScale& scale, const RegionIds& ids) {
    const auto& spec = chip.core;
    validate(spec);
    check_fits(spec, weights, scale, ids);
    check_positive("input range", scale.input_range);
    check_positive("output step", scale.output_step);
    const auto mapped = map_weights(weights, scale.column_us);
    const auto devices = [&](const Matrix<float>& target_us, std::uint64_t polarity) {
        return program_devices(chip.device, target_us.view(), device_ids(spec, ids, polarity));
    };
    ProgrammedRegion region{
        .ids = ids,
        .spec = spec,
        .device = chip.device,
        .input_range = scale.input_range,
        .plus = devices(mapped.plus_us, 0),
        .minus = devices(mapped.minus_us, 1),
        .adc = draw_adc_columns(spec.adc, ids.seed, first_column(spec, ids), weights.cols()),
        .affine = {.output_step = scale.output_step},
        .compensation = std::vector<double>(weights.cols(), 1.0)};
    // counts = counts_per_us * sum_i (x_i / range) g_i, and g = w / weight_per_us.
    const double input_per_count = scale.input_range / spec.adc.counts_per_us;
    for (std::size_t c = 0; c < weights.cols(); ++c) {
        const double factor = mapped.weight_per_us[c] * input_per_count / scale.output_step;
        region.affine.columns.push_back({.scale = factor, .offset = 0.0});
        if (!scale.output_limits.empty()) region.affine.columns[c].limit = scale.output_limits[c];
    }
    return region;
}

void check_products(const ProgrammedRegion& region, MatrixView<const float> x, const ProductIds& ids) {
    constexpr std::uint64_t kMostProducts = std::uint64_t{1} << 32U;
    if (x.cols() != region.rows())
        fail(ErrorCode::bad_data, fmt::format("inputs of length {}; the region holds weights of {} inputs",
                                              x.cols(), region.rows()));
    if (ids.first >= kMostProducts || x.rows() > kMostProducts - ids.first)
        fail(ErrorCode::bad_usage,
             fmt::format("products {} to {}; numbers must be below 2^32", ids.first, ids.first + x.rows()));
}

void compensate_drift(DriftCompensation kind, const ReadTime& time, ProgrammedRegion& region) {
    const auto reference = net_us(region, {.seconds = 0.0, .spacing_seconds = time.spacing_seconds});
    region.compensation = drift_compensation(kind, reference.view(), net_us(region, time).view());
}

}  // namespace imka

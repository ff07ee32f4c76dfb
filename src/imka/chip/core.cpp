#include "imka/chip/core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/base/error.hpp"
#include "imka/chip/program/mapping.hpp"

namespace imka {
namespace {

void check_positive(std::string_view field, double value) {
    if (!std::isfinite(value) || value <= 0.0)
        fail(ErrorCode::bad_config, fmt::format("{}: {}; it must be > 0", field, value));
}

void check_fits(const CoreSpec& spec, MatrixView<const float> weights, const CoreMapping& mapping) {
    const auto rows = static_cast<std::size_t>(spec.rows);
    const auto cols = static_cast<std::size_t>(spec.cols);
    if (weights.rows() > rows || weights.cols() > cols)
        fail(ErrorCode::bad_config,
             fmt::format("weights of {} inputs and {} outputs; a core has {} rows and {} columns",
                         weights.rows(), weights.cols(), rows, cols));
    if (mapping.column_us.size() != weights.cols())
        fail(ErrorCode::bad_config, fmt::format("{} column conductances for weights of {} outputs",
                                                mapping.column_us.size(), weights.cols()));
    if (!mapping.column_steps.empty() && mapping.column_steps.size() != weights.cols())
        fail(ErrorCode::bad_config, fmt::format("{} column steps for weights of {} outputs",
                                                mapping.column_steps.size(), weights.cols()));
}

// Numbers of devices and conversions are kept below 2^32, so that the number of a product fits beside them.
void check_numbers(const CoreSpec& spec, const CoreIds& ids) {
    const auto cells = static_cast<double>(spec.rows) * spec.cols;
    if ((ids.core + 1.0) * std::max(2.0 * cells, 64.0 * spec.cols) > 0x1p32)
        fail(ErrorCode::bad_config,
             fmt::format("core {} of {} x {} cells: too many devices to number; core times "
                         "cells must be below 2^31",
                         ids.core, spec.rows, spec.cols));
}

Matrix<float> net_us(const ProgrammedCore& core, const ReadTime& time) {
    auto plus = conductances_at(core.device, core.plus, time).g_us;
    const auto minus = conductances_at(core.device, core.minus, time).g_us;
    std::transform(plus.values().begin(), plus.values().end(), minus.values().begin(), plus.values().begin(),
                   std::minus<>());
    return plus;
}

}  // namespace

DeviceIds device_ids(const CoreSpec& spec, const CoreIds& ids, std::uint64_t polarity) {
    check_numbers(spec, ids);
    const auto rows = static_cast<std::uint64_t>(spec.rows);
    const auto cols = static_cast<std::uint64_t>(spec.cols);
    return {
        .seed = ids.seed, .first = (2 * std::uint64_t{ids.core} + polarity) * rows * cols, .stride = cols};
}

ProgrammedCore program_core(const CoreSpec& spec, const DeviceModel& device, MatrixView<const float> weights,
                            const CoreMapping& mapping, const CoreIds& ids) {
    validate(spec);
    check_fits(spec, weights, mapping);
    check_positive("input range", mapping.input_range);
    check_positive("output step", mapping.output_step);
    const auto mapped = map_weights(weights, mapping.column_us);
    const std::uint64_t first_column = std::uint64_t{ids.core} * static_cast<std::uint64_t>(spec.cols);
    ProgrammedCore core{.ids = ids,
                        .spec = spec,
                        .device = device,
                        .input_range = mapping.input_range,
                        .plus = program_devices(device, mapped.plus_us.view(), device_ids(spec, ids, 0)),
                        .minus = program_devices(device, mapped.minus_us.view(), device_ids(spec, ids, 1)),
                        .adc = draw_adc_columns(spec.adc, ids.seed, first_column, weights.cols()),
                        .affine = {.output_step = mapping.output_step, .columns = {}},
                        .compensation = std::vector<double>(weights.cols(), 1.0)};
    // counts = counts_per_us * sum_i (x_i / range) g_i, and g = w / weight_per_us.
    const double input_per_count = mapping.input_range / spec.adc.counts_per_us;
    for (std::size_t c = 0; c < weights.cols(); ++c) {
        const double step = mapping.column_steps.empty() ? 1.0 : mapping.column_steps[c];
        check_positive("step of a column", step);
        const double scale = mapped.weight_per_us[c] * input_per_count / (step * mapping.output_step);
        core.affine.columns.push_back({.scale = scale, .offset = 0.0, .step = step});
    }
    return core;
}

void compensate_drift(ProgrammedCore& core, DriftCompensation kind, const ReadTime& time) {
    const auto reference = net_us(core, {.seconds = 0.0, .spacing_seconds = time.spacing_seconds});
    core.compensation = drift_compensation(kind, reference.view(), net_us(core, time).view());
}

}  // namespace imka

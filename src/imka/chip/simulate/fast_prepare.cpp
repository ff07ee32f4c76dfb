// Folds a programmed core into matrices.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/fast.hpp"
#include "imka/chip/simulate/fast_plan.hpp"
#include "imka/ops/readout/readout_reference.hpp"

namespace imka {
namespace {

// Mean and variance of max(0, g + sd N(0,1)).
struct Truncated {
    double mean;
    double variance;
};

Truncated truncated(double g, double sd) {
    if (g >= 8.0 * sd) return {g, sd * sd};
    const double a = g / sd;
    const double above = 0.5 * std::erfc(-a / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * a * a) / std::sqrt(2.0 * std::numbers::pi);
    const double mean = g * above + sd * density;
    const double square = (g * g + sd * sd) * above + g * sd * density;
    return {mean, std::max(0.0, square - mean * mean)};
}

bool has_fresh_noise(const Conductances& now) {
    return std::ranges::any_of(now.fresh_sd_us.values(), [](float sd) { return sd > 0.0F; });
}

// Deviations become variances.
void square(Matrix<float>& sd) {
    for (auto& v : sd.values()) v *= v;
}

// What is drawn as one Gaussian has the mean and variance that reads have, which are never below 0.
void truncate(Matrix<float>& g_us, Matrix<float>& variance) {
    for (std::size_t i = 0; i < g_us.values().size(); ++i) {
        const auto m = truncated(g_us.values()[i], std::sqrt(double{variance.values()[i]}));
        g_us.values()[i] = static_cast<float>(m.mean);
        variance.values()[i] = static_cast<float>(m.variance);
    }
}

Matrix<float> backwards(const CoreSpec& spec, const DeviceState& state) {
    Matrix<float> factor(state.g_us.rows(), state.g_us.cols());
    for (std::size_t r = 0; r < factor.rows(); ++r) {
        for (std::size_t c = 0; c < factor.cols(); ++c) {
            const double z = normal(state.ids.seed, Stream::chip_polarity, device_index(state.ids, r, c));
            factor(r, c) = static_cast<float>(std::max(0.0, 1.0 + spec.polarity_asymmetry * z));
        }
    }
    return factor;
}

FastPlanes planes_at(const ProgrammedCore& core, const ReadTime& time) {
    auto plus = conductances_at(core.device, core.plus, time);
    auto minus = conductances_at(core.device, core.minus, time);
    const bool fresh = has_fresh_noise(plus) || has_fresh_noise(minus);
    FastPlanes planes{.plus_us = std::move(plus.g_us), .minus_us = std::move(minus.g_us)};
    if (fresh) {
        planes.plus_variance = std::move(plus.fresh_sd_us);
        planes.minus_variance = std::move(minus.fresh_sd_us);
        square(planes.plus_variance);
        square(planes.minus_variance);
    }
    if (core.spec.read_mode == ReadMode::one_phase && core.spec.polarity_asymmetry > 0.0) {
        planes.plus_backwards = backwards(core.spec, core.plus);
        planes.minus_backwards = backwards(core.spec, core.minus);
    }
    return planes;
}

// How much of either polarity's conductance adds to a charge.
struct Shares {
    double plus;
    double minus;
};

struct Layout {
    InputPanel panel;
    float sign;
    Shares shares;  // in panels other than split
};

Shares split_shares(const FastPlanes& planes, std::size_t input, std::size_t col) {
    const std::size_t rows = planes.plus_us.rows();
    const auto factor = [&](const Matrix<float>& b) {
        return b.rows() == 0 ? 1.0 : double{b(input % rows, col)};
    };
    if (input < rows) return {1.0, -factor(planes.minus_backwards)};
    return {-factor(planes.plus_backwards), 1.0};
}

// Place of a cell on its wire, as far as the loss goes: 1 - (1 - i/n)², i cells from the converter.
double wire_place(const CoreSpec& spec, std::size_t row, std::size_t col) {
    const double n = spec.rows;
    const double i = col % 2 == 0 ? static_cast<double>(row) : n - 1.0 - static_cast<double>(row);
    return 1.0 - (1.0 - i / n) * (1.0 - i / n);
}

bool has_ir_drop(const CoreSpec& spec) {
    return spec.ir_drop.scale > 0.0 && spec.ir_drop.wire_ohm > 0.0;
}

// What 1 uS gives in one column.
struct PerMicrosiemens {
    double counts;
    double load;
};

void fold_column(const ProgrammedCore& core, const FastPlanes& planes, const Layout& layout, std::size_t col,
                 const PerMicrosiemens& per_us, FastCharge& out) {
    const std::size_t rows = planes.plus_us.rows();
    for (std::size_t i = 0; i < out.counts.cols(); ++i) {
        const std::size_t r = i % rows;
        const auto s = layout.panel == InputPanel::split ? split_shares(planes, i, col) : layout.shares;
        const double plus = planes.plus_us(r, col);
        const double minus = planes.minus_us(r, col);
        const double net = per_us.counts * (s.plus * plus + s.minus * minus);
        out.counts(col, i) = static_cast<float>(net);
        if (out.variance.rows() > 0) {
            const double variance = s.plus * s.plus * planes.plus_variance(r, col) +
                                    s.minus * s.minus * planes.minus_variance(r, col);
            out.variance(col, i) = static_cast<float>(per_us.counts * per_us.counts * variance);
        }
        if (out.weighted.rows() == 0) continue;
        out.weighted(col, i) = static_cast<float>(net * wire_place(core.spec, r, col));
        out.load(col, i) =
            static_cast<float>(per_us.load * (std::abs(s.plus) * plus + std::abs(s.minus) * minus));
    }
}

// `pulse` is the duration of one step in full pulses.
FastCharge fold(const ProgrammedCore& core, const FastPlanes& planes, const Layout& layout, double pulse) {
    const std::size_t rows = planes.plus_us.rows();
    const std::size_t cols = planes.plus_us.cols();
    const std::size_t width = layout.panel == InputPanel::split ? 2 * rows : rows;
    FastCharge out{.panel = layout.panel, .sign = layout.sign, .counts = {cols, width}};
    if (planes.plus_variance.rows() > 0) out.variance = {cols, width};
    if (has_ir_drop(core.spec)) out.weighted = out.load = {cols, width};
    for (std::size_t c = 0; c < cols; ++c) {
        const PerMicrosiemens per_us{.counts = pulse * core.spec.adc.counts_per_us * core.adc[c].gain,
                                     .load = pulse * core.spec.rows * core.spec.ir_drop.wire_ohm * 1e-6};
        fold_column(core, planes, layout, c, per_us, out);
    }
    return out;
}

std::vector<float> offsets(const ProgrammedCore& core, double weight) {
    std::vector<float> out;
    for (const auto& column : core.adc) out.push_back(static_cast<float>(weight * column.offset_counts));
    return out;
}

std::vector<float> negative_gains(const ProgrammedCore& core) {
    std::vector<float> out;
    bool differs = false;
    for (const auto& column : core.adc) {
        out.push_back(static_cast<float>(column.negative_gain / column.gain));
        differs = differs || column.negative_gain != column.gain;
    }
    return differs ? out : std::vector<float>{};
}

ops::CountRounding rounding_of(AdcRounding rounding) {
    switch (rounding) {
        case AdcRounding::round:
            return ops::CountRounding::round;
        case AdcRounding::floor:
            return ops::CountRounding::floor;
        case AdcRounding::none:
            break;
    }
    return ops::CountRounding::none;
}

ops::Counter counter_of(const CoreSpec& spec) {
    const auto& adc = spec.adc;
    ops::Counter counter{.rounding = rounding_of(adc.rounding),
                         .most = adc.max_count > 0 ? static_cast<float>(adc.max_count)
                                                   : std::numeric_limits<float>::infinity(),
                         .noise_variance = static_cast<float>(adc.noise_counts * adc.noise_counts)};
    // With phases for either sign there is none to be found.
    if (spec.read_mode == ReadMode::one_phase)
        counter.polarity_error = static_cast<float>(adc.polarity_error_counts);
    return counter;
}

bool is_split(const CoreSpec& spec) {
    return spec.polarity_asymmetry > 0.0 || has_ir_drop(spec);
}

Layout one_phase_layout(const CoreSpec& spec) {
    return {is_split(spec) ? InputPanel::split : InputPanel::whole, 1.0F, {1.0, -1.0}};
}

// Nothing in the way from charge to counts bends, but for the clipping of phases at zero.
bool is_linear(const ProgrammedCore& core) {
    const auto& spec = core.spec;
    if (spec.adc.rounding != AdcRounding::none || spec.adc.max_count > 0 || has_ir_drop(spec)) return false;
    if (spec.read_mode == ReadMode::one_phase)
        return negative_gains(core).empty() && spec.adc.polarity_error_counts == 0.0;
    const bool moves_zero =
        spec.adc.noise_counts > 0.0 ||
        std::ranges::any_of(core.adc, [](const AdcColumn& c) { return c.offset_counts != 0.0; });
    return spec.dac.encoding == InputEncoding::pulse_width || !moves_zero;
}

// Counts of slices are added with these weights: their sum and that of their squares.
struct SliceSums {
    double weights = 1.0;
    double squares = 1.0;
};

SliceSums slice_sums(const DacConfig& dac) {
    if (dac.encoding == InputEncoding::pulse_width) return {};
    const double bits = std::bit_width(static_cast<unsigned>(dac.levels));
    const double levels = dac.levels;
    return {.weights = (std::exp2(bits) - 1.0) / levels,
            .squares = (std::exp2(2.0 * bits) - 1.0) / (3.0 * levels * levels)};
}

FastPlan linear_plan(const ProgrammedCore& core, const FastPlanes& planes) {
    const bool one = core.spec.read_mode == ReadMode::one_phase;
    const Layout layout = one ? one_phase_layout(core.spec) : Layout{InputPanel::whole, 1.0F, {1.0, -1.0}};
    const auto sums = slice_sums(core.spec.dac);
    FastPlan plan{.either_sign = true, .counter = counter_of(core.spec)};
    plan.charges.push_back(fold(core, planes, layout, 1.0 / core.spec.dac.levels));
    plan.counter.noise_variance *= static_cast<float>((one ? 1.0 : 4.0) * sums.squares);
    plan.offset = offsets(core, one ? sums.weights : 0.0);
    return plan;
}

ColumnSpread spread(const Matrix<float>& g_us, std::size_t col, double per_us) {
    const auto rows = static_cast<double>(g_us.rows());
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t r = 0; r < g_us.rows(); ++r) {
        sum += g_us(r, col);
        squares += double{g_us(r, col)} * g_us(r, col);
    }
    const double mean = sum / rows;
    return {per_us * mean, per_us * std::sqrt(std::max(0.0, squares / rows - mean * mean))};
}

// Without those that have no smaller mean and no larger deviation than another.
std::vector<ColumnSpread> worst(std::vector<ColumnSpread> columns) {
    std::ranges::sort(columns, {}, &ColumnSpread::mean);
    std::vector<ColumnSpread> out;
    for (const auto& column : columns) {
        if (out.empty() || column.deviation > out.back().deviation) out.push_back(column);
    }
    return out;
}

LinearMargin linear_margin(const ProgrammedCore& core, const FastPlanes& planes) {
    LinearMargin margin;
    if (core.spec.read_mode == ReadMode::one_phase) return margin;
    std::vector<ColumnSpread> columns;
    for (std::size_t c = 0; c < core.used_cols(); ++c) {
        const double per_us = core.adc[c].gain * core.spec.adc.counts_per_us / core.spec.dac.levels;
        columns.push_back(spread(planes.plus_us, c, per_us));
        columns.push_back(spread(planes.minus_us, c, per_us));
        const double clear = 4.0 * core.spec.adc.noise_counts + std::abs(core.adc[c].offset_counts);
        margin.need = std::max(margin.need, clear);
    }
    margin.columns = worst(std::move(columns));
    return margin;
}

void set_affine(FastCore& out) {
    const bool half = out.core.spec.affine.fp16;
    const auto rounded = [&](double v) { return static_cast<float>(half ? ops::reference::to_half(v) : v); };
    for (std::size_t c = 0; c < out.core.used_cols(); ++c) {
        out.scale.push_back(rounded(out.core.affine.columns[c].scale));
        out.shift.push_back(rounded(out.core.affine.columns[c].offset));
        out.factor.push_back(static_cast<float>(out.core.compensation[c] * out.core.affine.output_step *
                                                out.core.affine.columns[c].step));
    }
}

}  // namespace

FastPlan exact_plan(const ProgrammedCore& core, const FastPlanes& planes) {
    const auto& spec = core.spec;
    FastPlan plan{.bit_by_bit = spec.dac.encoding == InputEncoding::bit_serial,
                  .either_sign = spec.read_mode == ReadMode::one_phase,
                  .counter = counter_of(spec),
                  .offset = offsets(core, 1.0)};
    const double pulse = plan.bit_by_bit ? 1.0 : 1.0 / spec.dac.levels;
    if (plan.either_sign) {
        plan.negative_gain = negative_gains(core);
        plan.charges.push_back(fold(core, planes, one_phase_layout(spec), pulse));
        return plan;
    }
    const Shares plus{1.0, 0.0};
    const Shares minus{0.0, 1.0};
    for (const auto& layout :
         {Layout{InputPanel::positive, +1.0F, plus}, Layout{InputPanel::positive, -1.0F, minus},
          Layout{InputPanel::negative, +1.0F, minus}, Layout{InputPanel::negative, -1.0F, plus}})
        plan.charges.push_back(fold(core, planes, layout, pulse));
    return plan;
}

FastCore prepare(const ProgrammedCore& core, const ReadTime& time) {
    FastCore out{.core = core};
    set_affine(out);
    auto planes = planes_at(core, time);
    const bool fresh = planes.plus_variance.rows() > 0;
    const bool linear = is_linear(core);
    out.draws_devices = fresh && !linear && core.spec.dac.encoding == InputEncoding::bit_serial;
    if (out.draws_devices) {
        out.devices = std::move(planes);
        return out;
    }
    if (fresh) {
        truncate(planes.plus_us, planes.plus_variance);
        truncate(planes.minus_us, planes.minus_variance);
    }
    if (linear) {
        out.linear = linear_plan(core, planes);
        out.margin = linear_margin(core, planes);
    }
    if (!linear || out.margin.need > 0.0) out.exact = exact_plan(core, planes);
    return out;
}

}  // namespace imka

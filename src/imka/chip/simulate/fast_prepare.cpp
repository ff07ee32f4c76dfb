// Folds a programmed region into matrices.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/fast.hpp"

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

// Turns standard deviations into variances.
void square(Matrix<float>& sd) {
    for (auto& v : sd.values()) v *= v;
}

// Replaces mean and variance by those of actual reads, which are never below 0.
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

FastPlanes planes_at(const ProgrammedRegion& region, const ReadTime& time) {
    auto plus = conductances_at(region.device, region.plus, time);
    auto minus = conductances_at(region.device, region.minus, time);
    const bool fresh = has_fresh_noise(plus) || has_fresh_noise(minus);
    FastPlanes planes{.plus_us = std::move(plus.g_us), .minus_us = std::move(minus.g_us)};
    if (fresh) {
        planes.plus_variance = std::move(plus.fresh_sd_us);
        planes.minus_variance = std::move(minus.fresh_sd_us);
        square(planes.plus_variance);
        square(planes.minus_variance);
    }
    if (region.spec.read_mode == ReadMode::one_phase && region.spec.polarity_asymmetry > 0.0) {
        planes.plus_backwards = backwards(region.spec, region.plus);
        planes.minus_backwards = backwards(region.spec, region.minus);
    }
    return planes;
}

// Weight of each polarity's conductance in a charge.
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

// Position of a cell on its wire, as used by the loss: 1 - (1 - i/n)², i cells from the converter. Row and
// column are those of the core.
double wire_place(const ProgrammedRegion& region, std::size_t row, std::size_t col) {
    const double n = region.spec.rows;
    const auto r = static_cast<double>(region.ids.row + row);
    const double i = (region.ids.col + col) % 2 == 0 ? r : n - 1.0 - r;
    return 1.0 - (1.0 - i / n) * (1.0 - i / n);
}

bool has_ir_drop(const CoreSpec& spec) {
    return spec.ir_drop.scale > 0.0 && spec.ir_drop.wire_ohm > 0.0;
}

// Counts and wire load per uS in one column.
struct PerMicrosiemens {
    double counts;
    double load;
};

void fold_column(const ProgrammedRegion& region, const FastPlanes& planes, const Layout& layout,
                 std::size_t col, const PerMicrosiemens& per_us, FastCharge& out) {
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
        out.weighted(col, i) = static_cast<float>(net * wire_place(region, r, col));
        out.load(col, i) =
            static_cast<float>(per_us.load * (std::abs(s.plus) * plus + std::abs(s.minus) * minus));
    }
}

// `pulse` is the duration of one step in full pulses.
FastCharge fold(const ProgrammedRegion& region, const FastPlanes& planes, const Layout& layout,
                double pulse) {
    const std::size_t rows = planes.plus_us.rows();
    const std::size_t cols = planes.plus_us.cols();
    const std::size_t width = layout.panel == InputPanel::split ? 2 * rows : rows;
    FastCharge out{.panel = layout.panel, .sign = layout.sign, .counts = {cols, width}};
    if (planes.plus_variance.rows() > 0) out.variance = {cols, width};
    if (has_ir_drop(region.spec)) out.weighted = out.load = {cols, width};
    for (std::size_t c = 0; c < cols; ++c) {
        const PerMicrosiemens per_us{.counts = pulse * region.spec.adc.counts_per_us * region.adc[c].gain,
                                     .load = pulse * region.spec.rows * region.spec.ir_drop.wire_ohm * 1e-6};
        fold_column(region, planes, layout, c, per_us, out);
    }
    return out;
}

std::vector<float> offsets(const ProgrammedRegion& region, double weight) {
    std::vector<float> out;
    for (const auto& column : region.adc) out.push_back(static_cast<float>(weight * column.offset_counts));
    return out;
}

std::vector<float> negative_gains(const ProgrammedRegion& region) {
    std::vector<float> out;
    bool differs = false;
    for (const auto& column : region.adc) {
        out.push_back(static_cast<float>(column.negative_gain / column.gain));
        differs = differs || column.negative_gain != column.gain;
    }
    return differs ? out : std::vector<float>{};
}

ops::CountRounding rounding_of(AdcRounding rounding) {
    if (rounding == AdcRounding::none) return ops::CountRounding::none;
    return rounding == AdcRounding::round ? ops::CountRounding::round : ops::CountRounding::floor;
}

ops::Counter counter_of(const CoreSpec& spec) {
    const auto& adc = spec.adc;
    ops::Counter counter{.rounding = rounding_of(adc.rounding),
                         .most = adc.max_count > 0 ? static_cast<float>(adc.max_count)
                                                   : std::numeric_limits<float>::infinity(),
                         .noise_variance = static_cast<float>(adc.noise_counts * adc.noise_counts)};
    // With separate phases for the signs, no comparator decides the sign.
    if (spec.read_mode == ReadMode::one_phase)
        counter.polarity_error = static_cast<float>(adc.polarity_error_counts);
    return counter;
}

Layout one_phase_layout(const CoreSpec& spec) {
    const bool split = spec.polarity_asymmetry > 0.0 || has_ir_drop(spec);
    return {split ? InputPanel::split : InputPanel::whole, 1.0F, {1.0, -1.0}};
}

// True if counts are linear in the charge, except for clipping of phases at zero.
bool is_linear(const ProgrammedRegion& region) {
    const auto& spec = region.spec;
    if (spec.adc.rounding != AdcRounding::none || spec.adc.max_count > 0 || has_ir_drop(spec)) return false;
    if (spec.read_mode == ReadMode::one_phase)
        return negative_gains(region).empty() && spec.adc.polarity_error_counts == 0.0;
    const bool moves_zero =
        spec.adc.noise_counts > 0.0 ||
        std::ranges::any_of(region.adc, [](const AdcColumn& c) { return c.offset_counts != 0.0; });
    return spec.dac.encoding == InputEncoding::pulse_width || !moves_zero;
}

// Weights of the slices' counts: their sum and their sum of squares.
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

FastFold linear_fold(const ProgrammedRegion& region, const FastPlanes& planes) {
    const bool one = region.spec.read_mode == ReadMode::one_phase;
    const Layout layout = one ? one_phase_layout(region.spec) : Layout{InputPanel::whole, 1.0F, {1.0, -1.0}};
    const auto sums = slice_sums(region.spec.dac);
    FastFold out{.either_sign = true, .counter = counter_of(region.spec)};
    out.charges.push_back(fold(region, planes, layout, 1.0 / region.spec.dac.levels));
    out.counter.noise_variance *= static_cast<float>((one ? 1.0 : 4.0) * sums.squares);
    out.offset = offsets(region, one ? sums.weights : 0.0);
    return out;
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

// Drops columns that cannot be the worst because another column has neither a larger mean nor a smaller
// standard deviation.
std::vector<ColumnSpread> worst(std::vector<ColumnSpread> columns) {
    std::ranges::sort(columns, {}, &ColumnSpread::mean);
    std::vector<ColumnSpread> out;
    for (const auto& column : columns) {
        if (out.empty() || column.deviation > out.back().deviation) out.push_back(column);
    }
    return out;
}

LinearMargin linear_margin(const ProgrammedRegion& region, const FastPlanes& planes) {
    LinearMargin margin;
    if (region.spec.read_mode == ReadMode::one_phase) return margin;
    std::vector<ColumnSpread> columns;
    for (std::size_t c = 0; c < region.cols(); ++c) {
        const double per_us = region.adc[c].gain * region.spec.adc.counts_per_us / region.spec.dac.levels;
        columns.push_back(spread(planes.plus_us, c, per_us));
        columns.push_back(spread(planes.minus_us, c, per_us));
        const double clear = 4.0 * region.spec.adc.noise_counts + std::abs(region.adc[c].offset_counts);
        margin.need = std::max(margin.need, clear);
    }
    margin.columns = worst(std::move(columns));
    return margin;
}

void set_affine(FastRegion& out) {
    const bool half = out.region.spec.affine.fp16;
    const auto rounded = [&](double v) { return static_cast<float>(half ? ops::to_half(v) : v); };
    for (std::size_t c = 0; c < out.region.cols(); ++c) {
        out.scale.push_back(rounded(out.region.affine.columns[c].scale));
        out.shift.push_back(rounded(out.region.affine.columns[c].offset));
        out.factor.push_back(static_cast<float>(out.region.compensation[c] * out.region.affine.output_step));
        if (out.region.spec.affine.limit.deviations > 0.0)
            out.limit.push_back(static_cast<float>(out.region.affine.columns[c].limit));
    }
}

}  // namespace

FastFold exact_fold(const ProgrammedRegion& region, const FastPlanes& planes) {
    const auto& spec = region.spec;
    FastFold out{.bit_by_bit = spec.dac.encoding == InputEncoding::bit_serial,
                 .either_sign = spec.read_mode == ReadMode::one_phase,
                 .counter = counter_of(spec),
                 .offset = offsets(region, 1.0)};
    const double pulse = out.bit_by_bit ? 1.0 : 1.0 / spec.dac.levels;
    if (out.either_sign) {
        out.negative_gain = negative_gains(region);
        out.charges.push_back(fold(region, planes, one_phase_layout(spec), pulse));
        return out;
    }
    const Shares plus{1.0, 0.0};
    const Shares minus{0.0, 1.0};
    for (const auto& layout :
         {Layout{InputPanel::positive, +1.0F, plus}, Layout{InputPanel::positive, -1.0F, minus},
          Layout{InputPanel::negative, +1.0F, minus}, Layout{InputPanel::negative, -1.0F, plus}})
        out.charges.push_back(fold(region, planes, layout, pulse));
    return out;
}

FastRegion prepare(const ProgrammedRegion& region, const ReadTime& time) {
    FastRegion out{.region = region};
    set_affine(out);
    auto planes = planes_at(region, time);
    const bool fresh = planes.plus_variance.rows() > 0;
    const bool linear = is_linear(region);
    out.draws_devices = fresh && !linear && region.spec.dac.encoding == InputEncoding::bit_serial;
    if (out.draws_devices) {
        out.devices = std::move(planes);
        return out;
    }
    if (fresh) {
        truncate(planes.plus_us, planes.plus_variance);
        truncate(planes.minus_us, planes.minus_variance);
    }
    if (linear) {
        out.linear = linear_fold(region, planes);
        out.margin = linear_margin(region, planes);
    }
    if (!linear || out.margin.need > 0.0) out.exact = exact_fold(region, planes);
    return out;
}

}  // namespace imka

#include "imka/train/torch/chip_product.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "imka/chip/build.hpp"
#include "imka/chip/plan.hpp"

namespace imka {
namespace {

using torch::Tensor;

Tensor piece_values(const CurvePiece& piece, const Tensor& a) {
    const auto& c = piece.coefficients;
    Tensor v;
    switch (piece.form) {
        case CurveForm::logarithm:
            v = c[0] * a.log() + c[1];
            break;
        case CurveForm::power:
            v = c[0] * a.pow(c[1]);
            break;
        case CurveForm::polynomial:
            v = torch::full_like(a, c.back());
            for (auto k = c.rbegin() + 1; k != c.rend(); ++k) v = v * a + *k;
            break;
    }
    return v.clamp(piece.min, piece.max);
}

// One polarity of the cells of a tile, outputs x inputs or examples x outputs x inputs: mean and variance of
// a read, uS and uS².
struct Devices {
    Tensor mean;
    Tensor variance;
};

// Of max(0, g + sd N(0, 1)).
Devices read_from_zero(const Tensor& g, const Tensor& sd) {
    const auto clear = g >= 8.0 * sd;  // where the formulas below only lose digits
    const auto a = g / sd;
    const auto above = 0.5 * torch::erfc(-a / std::numbers::sqrt2);
    const auto density = torch::exp(-0.5 * a * a) / std::sqrt(2.0 * std::numbers::pi);
    const auto mean = torch::where(clear, g, g * above + sd * density);
    const auto square = (g * g + sd * sd) * above + g * sd * density;
    return {mean, torch::where(clear, sd * sd, (square - mean * mean).clamp_min(0.0))};
}

// `like`: the shape of the cells to write; targets are outputs x inputs.
Devices written(const DeviceModel& m, const Tensor& targets, at::IntArrayRef like) {
    const auto none = targets < m.zero_threshold_us;
    const auto target = targets.masked_fill(none, 0.0);
    const double scale = m.programming_scale * m.g_max_us / m.programming_reference_g_max_us;
    const auto sigma = scale * curve_values(m.programming_error_us, target / m.g_max_us).clamp_min(0.0);
    const auto z = [&] { return torch::randn(like, targets.options()); };
    const auto g = (target + sigma.masked_fill(none, 0.0) * z()).clamp(m.g_floor_us, m.g_ceiling_us);
    const auto sd = g * m.read_noise_scale * curve_values(m.read_noise, g / m.g_max_us).clamp_min(0.0);
    const auto noise = read_noise_parts(m, {.spacing_seconds = BuildConfig{}.read_spacing});
    return read_from_zero((g + noise.frozen * sd * z()).clamp_min(0.0), noise.fresh * sd);
}

// A written tile. Devices are in counts per step of their inputs, gains of converters included.
struct Cells {
    Devices plus;
    Devices minus;
    Tensor offset;  // of the converter of each output, counts
    Tensor weight;  // written values in the unit of weights, in the shape of the devices
};

// Conductance of the largest weight of each output such that no phase of these inputs exceeds the share
// `fill` of the largest count; outputs x 1. `relative`: weights divided by the largest one of their output.
Tensor column_us(const ChipSpec& chip, const Tensor& relative, const Tensor& steps) {
    const auto& adc = chip.core.adc;
    auto most = torch::zeros({relative.size(0)}, relative.options());
    if (adc.max_count == 0) return torch::full_like(most, chip.device.g_max_us).unsqueeze(1);
    for (const double input : {1.0, -1.0}) {
        const auto panel = (input * steps).clamp_min(0.0);
        for (const double sign : {1.0, -1.0}) {
            const auto sums = torch::matmul(panel, (sign * relative).clamp_min(0.0).t());
            most = torch::max(most, sums.flatten(0, 1).amax(0));
        }
    }
    const double full = adc.fill * adc.max_count / adc.counts_per_us * chip.core.dac.levels;
    return (full / most).clamp_max(chip.device.g_max_us).unsqueeze(1);
}

// `steps`: of the calibration inputs.
Cells written_cells(const TrainingChip& chip, const Tensor& weight, const Tensor& steps) {
    const auto& adc = chip.spec.core.adc;
    const auto largest = weight.abs().amax(1, true);
    // An output without weights has targets of 0.
    const auto relative = torch::where(largest > 0.0, weight / largest, torch::zeros_like(weight));
    const auto us = column_us(chip.spec, relative, steps);
    auto cells = weight.sizes().vec();
    if (chip.written == WeightNoise::sample) cells.insert(cells.begin(), steps.size(0));
    const auto polarity = [&](double sign) {
        return written(chip.spec.device, (sign * relative).clamp_min(0.0) * us, cells);
    };
    const auto plus = polarity(1.0);
    const auto minus = polarity(-1.0);
    const auto columns = [&] { return torch::randn({weight.size(0), 1}, weight.options()); };
    const auto gain = (1.0 + adc.gain_sd * columns()).clamp_min(0.01);
    const auto per_us = gain * (adc.counts_per_us / chip.spec.core.dac.levels);
    const auto in_counts = [&](const Devices& us_of) -> Devices {
        return {us_of.mean * per_us, us_of.variance * per_us.square()};
    };
    return {.plus = in_counts(plus),
            .minus = in_counts(minus),
            .offset = (adc.offset_mean_counts + adc.offset_sd_counts * columns()).squeeze(1),
            .weight = largest / us * (plus.mean - minus.mean)};
}

// Counts of one phase. `panel`: the steps of one sign. In place: these are the largest tensors of a step.
Tensor phase_counts(const AdcConfig& adc, const Devices& devices, const Tensor& offset, const Tensor& panel) {
    const auto product = [](const Tensor& x, const Tensor& w) {
        return torch::matmul(x, w.transpose(-1, -2));
    };
    const auto sd =
        product(panel.square(), devices.variance).add_(adc.noise_counts * adc.noise_counts).sqrt_();
    auto v = product(panel, devices.mean).add_(offset).addcmul_(sd, torch::randn_like(sd));
    if (adc.rounding == AdcRounding::round) v.round_();
    if (adc.rounding == AdcRounding::floor) v.floor_();
    return adc.max_count > 0 ? v.clamp_(0.0, adc.max_count) : v.clamp_min_(0.0);
}

Tensor counts_of(const CoreSpec& core, const Cells& cells, const Tensor& steps) {
    const auto positive = steps.clamp_min(0.0);
    const auto negative = (-steps).clamp_min(0.0);
    const auto phase = [&](const Devices& devices, const Tensor& panel) {
        return phase_counts(core.adc, devices, cells.offset, panel);
    };
    auto counts = phase(cells.plus, positive);
    counts.sub_(phase(cells.minus, positive));
    counts.add_(phase(cells.minus, negative));
    counts.sub_(phase(cells.plus, negative));
    return core.adc.output_floor ? counts.floor() : counts;
}

// Scale and offset from counts to output steps, and the limit of results. Vectors have one value per output.
struct Outputs {
    Tensor step;  // value of one output step
    Tensor scale;
    Tensor offset;
    Tensor limit;  // output steps; undefined: none
};

// Value of an output step, from the largest exact product of each output.
Tensor output_step(const AffineConfig& affine, const Tensor& largest) {
    const auto most = affine.range == OutputRange::largest ? largest.max() : largest.mean();
    const int bits = affine.output_bits == 0 ? 8 : affine.output_bits;
    const auto step = most * (affine.headroom / ((1 << (bits - 1)) - 1));
    return torch::where(most > 0.0, step, torch::ones_like(step));
}

// `products`: of the inputs before they are rounded.
Tensor product_limit(const ProductLimit& limit, const Tensor& products) {
    if (limit.deviations == 0.0) return {};
    const auto squares = products.square().mean(0);
    const auto mean = squares.mean();
    const auto unit =
        limit.unit == LimitUnit::core ? mean.expand_as(squares) : torch::where(squares > 0.0, squares, mean);
    return limit.deviations * unit.sqrt().masked_fill(mean <= 0.0, std::numeric_limits<double>::infinity());
}

// Calibration inputs of a tile.
struct Sample {
    Tensor x;        // examples x rows x inputs
    Tensor applied;  // as rounded by the input converters
    Tensor steps;
};

Tensor in_half(const AffineConfig& affine, const Tensor& x) {
    return affine.fp16 ? x.to(torch::kHalf).to(x.dtype()) : x;
}

// Least squares from counts to the products of the applied inputs.
Outputs fitted_outputs(const CoreSpec& core, const Cells& cells, const Tensor& weight, const Sample& sample) {
    const auto exact = torch::matmul(sample.applied, weight.t()).flatten(0, 1);
    const auto step = output_step(core.affine, exact.abs().amax(0));
    const auto counts = counts_of(core, cells, sample.steps).flatten(0, 1);
    const auto mean_y = exact.mean(0) / step;
    const auto mean_c = counts.mean(0);
    const auto c = counts - mean_c;
    const auto variance = c.square().sum(0);
    const auto covariance = (c * (exact / step - mean_y)).sum(0);
    const auto scale = torch::where(variance > 0.0, covariance / variance, torch::zeros_like(variance));
    const auto limit = product_limit(core.affine.limit, torch::matmul(sample.x, weight.t()).flatten(0, 1));
    return {.step = step,
            .scale = in_half(core.affine, scale),
            .offset = in_half(core.affine, mean_y - scale * mean_c),
            .limit = limit.defined() ? limit / step : limit};
}

Tensor limited(const ProductLimit& config, const Tensor& v, const Tensor& limit) {
    if (!limit.defined()) return v;
    if (config.shape == LimitShape::clip) return torch::min(torch::max(v, -limit), limit);
    return v / (1.0 + (v / limit).square()).sqrt();
}

Tensor results_of(const AffineConfig& affine, const Outputs& outputs, const Tensor& counts) {
    auto v = in_half(affine, outputs.scale * in_half(affine, counts) + outputs.offset);
    v = limited(affine.limit, v, outputs.limit);
    if (affine.output_bits > 0) {
        const double most = (1 << (affine.output_bits - 1)) - 1;
        v = v.clamp(-most, most);
        v = affine.rounding == OutputRounding::floor ? v.floor() : v.round();
    }
    return outputs.step * v;
}

// Results of a tile, and the weights written to it. Without gradients.
struct TileProduct {
    Tensor y;
    Tensor weight;
};
TileProduct tile_product(const TrainingChip& chip, const Tensor& weight, const Tensor& steps,
                         const Sample& sample) {
    const auto& core = chip.spec.core;
    const auto cells = written_cells(chip, weight, sample.steps);
    const auto outputs = fitted_outputs(core, cells, weight, sample);
    return {results_of(core.affine, outputs, counts_of(core, cells, steps)), cells.weight};
}

Tensor steps_of(const DacConfig& dac, const Tensor& x, const Tensor& range) {
    const auto v = x / range * static_cast<double>(dac.levels);
    return dac.rounding == InputRounding::truncate ? v.trunc() : v.round();
}

// Rows of each example used for calibration: all, or some drawn with replacement.
Tensor calibration_rows(const Tensor& x) {
    const auto all = x.size(1);
    const auto some = std::max<std::int64_t>(1, BuildConfig{}.calibration_inputs / x.size(0));
    const auto options = torch::TensorOptions(torch::kLong).device(x.device());
    return some < all ? torch::randint(all, {some}, options) : torch::arange(all, options);
}

Tensor columns(const Tensor& x, std::size_t first, std::size_t count) {
    return x.narrow(-1, static_cast<std::int64_t>(first), static_cast<std::int64_t>(count));
}

}  // namespace

Tensor curve_values(const Curve& curve, const Tensor& u) {
    if (curve.pieces.empty()) return torch::zeros_like(u);
    const auto a = curve.argument_at_g_max * u;
    auto values = piece_values(curve.pieces.back(), a);
    for (auto piece = curve.pieces.rbegin() + 1; piece != curve.pieces.rend(); ++piece)
        values = torch::where(a < piece->below, piece_values(*piece, a), values);
    return curve.value_scale * values;
}

Tensor chip_product(const Tensor& x, const Tensor& weight, const Tensor& range, const TrainingChip& chip) {
    const auto& core = chip.spec.core;
    const auto whole = x.detach();
    const auto step = range.detach() / static_cast<double>(core.dac.levels);
    const auto steps = steps_of(core.dac, whole, range.detach());
    const auto inputs = x + (steps * step - whole);
    const auto rows = calibration_rows(whole);
    const Sample sample{whole.index_select(1, rows), (steps * step).index_select(1, rows),
                        steps.index_select(1, rows)};
    // Partial sums of each group of outputs; tiles of a group are consecutive.
    std::vector<Tensor> groups;
    for (const auto& tile : tile_matrix(static_cast<std::size_t>(weight.size(1)),
                                        static_cast<std::size_t>(weight.size(0)), core)) {
        const auto w =
            columns(weight, tile.first_row, tile.rows)
                .narrow(0, static_cast<std::int64_t>(tile.first_col), static_cast<std::int64_t>(tile.cols));
        const auto of_tile = [&](const Tensor& t) { return columns(t, tile.first_row, tile.rows); };
        TileProduct product;
        {
            const torch::NoGradGuard guard;
            product = tile_product(chip, w.detach(), of_tile(steps),
                                   {of_tile(sample.x), of_tile(sample.applied), of_tile(sample.steps)});
        }
        const auto linear =
            torch::matmul(of_tile(inputs), (w + (product.weight - w.detach())).transpose(-1, -2));
        const auto y = linear + (product.y - linear.detach());
        if (tile.first_row == 0)
            groups.push_back(y);
        else
            groups.back() = groups.back() + y;
    }
    return groups.size() == 1 ? groups.front() : torch::cat(groups, -1);
}

}  // namespace imka

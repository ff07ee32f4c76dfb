#include "imka/chip/simulate/fast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka {
namespace {

constexpr unsigned kColumnBits = 26;        // columns of all cores; check_numbers keeps them below 2^26
constexpr std::size_t kNormalsAtOnce = 64;  // numbers per vector step on the widest processor

std::size_t whole_vectors(std::size_t normals) {
    return (normals + kNormalsAtOnce - 1) / kNormalsAtOnce * kNormalsAtOnce;
}

// How jitter lengthens pulses. by_time: all pulses of an input in one product by the same time. by_share: for
// bits that are applied one by one but folded into one charge, the charge by the same share.
enum class Lengthening { by_time, by_share };

// Scratch memory of one thread. Matrices have the rows of a tile; only the first `rows` are in use. Panels
// and charges have one row per converted row, without gaps.
struct Scratch {
    Scratch(const FastRegion& f, std::size_t most_rows)
        : steps(most_rows, f.region.rows()),
          whole_inputs(f.region.spec.dac.encoding == InputEncoding::bit_serial ? Lengthening::by_share
                                                                               : Lengthening::by_time),
          counts(most_rows, f.region.cols()),
          normals(whole_vectors(f.region.cols() + 3)) {
        if (f.region.spec.dac.jitter_steps > 0.0) jitter = steps;
        if (f.region.spec.adc.polarity_error_counts > 0.0) comparator = normals;
    }

    std::size_t rows = 0;
    Matrix<float> steps;
    Matrix<float> jitter;  // extra length, in the unit of a panel or as a share; empty: none
    Lengthening whole_inputs;
    Matrix<float> panel;
    Matrix<float> squares;
    bool panel_is_zero = false;
    Matrix<float> counts;
    Matrix<float> charge;
    Matrix<float> variance;
    Matrix<float> weighted;
    Matrix<float> load;
    std::vector<float> normals;
    std::vector<float> comparator;
    std::uint64_t saturated = 0;
};

// Rows of a tile to convert, and the numbers of their products.
struct Rows {
    std::uint64_t seed;
    std::uint64_t first;  // product of row 0
    std::vector<std::size_t> chosen;
};

// Standard normals first, first + 1, ... of a stream. Generates full vectors, since a remainder would cost
// more. `out` needs room for the padding and 3 more.
struct Numbers {
    std::uint64_t seed;
    Stream stream;
    std::uint64_t first;
    std::size_t count;
};
std::span<const float> draw_normals(const Numbers& n, std::vector<float>& out) {
    const std::size_t lead = n.first % 4;
    ops::fill_normal(n.seed, n.stream, n.first - lead, std::span(out).first(whole_vectors(lead + n.count)));
    return std::span<const float>(out).subspan(lead, n.count);
}

// A conversion of the product of one row, for all columns.
Numbers conversion_numbers(const FastRegion& f, const Rows& rows, std::size_t row, std::size_t conversion) {
    const std::uint64_t column = first_column(f.region.spec, f.region.ids);
    return {.seed = rows.seed,
            .stream = Stream::chip_adc_noise,
            .first = first_normal(rows.first + row, conversion, column),
            .count = f.region.cols()};
}

constexpr int kNoBit = -1;  // all bits of the steps, not a single one

float bit_of(float magnitude, int bit) {
    return static_cast<float>((static_cast<std::uint32_t>(magnitude) >> static_cast<unsigned>(bit)) & 1U);
}

// max(sign steps, 0), or one bit of it.
void fill_half(std::span<const float> steps, float sign, int bit, std::span<float> out) {
    for (std::size_t i = 0; i < steps.size(); ++i) out[i] = std::max(sign * steps[i], 0.0F);
    if (bit == kNoBit) return;
    for (auto& v : out) v = bit_of(v, bit);
}

void fill_whole(std::span<const float> steps, int bit, std::span<float> out) {
    std::ranges::copy(steps, out.begin());
    if (bit == kNoBit) return;
    for (auto& v : out) v = std::copysign(bit_of(std::abs(v), bit), v);
}

// Pulses of length 0 stay 0.
void lengthen(Lengthening kind, std::span<const float> jitter, std::span<float> pulses) {
    for (std::size_t i = 0; i < pulses.size(); ++i) {
        const float length = std::abs(pulses[i]);
        const float more = jitter[i % jitter.size()] * (kind == Lengthening::by_time ? 1.0F : length);
        if (length > 0.0F) pulses[i] = std::copysign(std::max(0.0F, length + more), pulses[i]);
    }
}

// Panel of a tile and its squares.
void fill_panel(InputPanel kind, int bit, const Rows& rows, Scratch& s) {
    const std::size_t n = s.steps.cols();
    const std::size_t width = kind == InputPanel::split ? 2 * n : n;
    if (s.panel.cols() != width) {
        s.panel = {s.steps.rows(), width};
        s.squares = {s.steps.rows(), width};
    }
    for (std::size_t i = 0; i < rows.chosen.size(); ++i) {
        const auto steps = s.steps.row(rows.chosen[i]);
        const auto out = s.panel.row(i);
        if (kind == InputPanel::whole) {
            fill_whole(steps, bit, out);
        } else {
            if (kind != InputPanel::negative) fill_half(steps, 1.0F, bit, out.first(n));
            if (kind != InputPanel::positive) fill_half(steps, -1.0F, bit, out.last(n));
        }
        if (s.jitter.rows() > 0)
            lengthen(bit == kNoBit ? s.whole_inputs : Lengthening::by_time, s.jitter.row(rows.chosen[i]),
                     out);
        std::ranges::transform(out, out, s.squares.row(i).begin(), std::multiplies<>());
    }
    s.panel_is_zero = std::ranges::all_of(s.panel.values().first(rows.chosen.size() * width),
                                          [](float v) { return v == 0.0F; });
}

// out = in matrixᵀ for a non-empty matrix; in is the panel or its squares. Skips a panel of zeros, which is
// common: inputs of many data sets have only one sign.
void multiply(const Scratch& s, std::size_t rows, const Matrix<float>& in, const Matrix<float>& matrix,
              Matrix<float>& out) {
    if (matrix.rows() == 0) return;
    if (out.cols() != matrix.rows()) out = {in.rows(), matrix.rows()};
    if (s.panel_is_zero) {
        std::ranges::fill(out.values().first(rows * out.cols()), 0.0F);
    } else {
        gemm_nt(in.view().slice_rows(0, rows), matrix.view(), out.view().slice_rows(0, rows));
    }
}

// Charge minus the loss along the wire: share = a (0.05 a² - 0.2 a + 0.5) of the weighted charge, with
// load a. Noise is reduced like a small change of the charge. In one phase, currents of both signs load the
// wire, so a change of the net charge does not change the load; it acts at the mean position on the wire,
// 2/3.
void lose_on_wire(const FastRegion& f, const FastFold& fold, std::size_t row, Scratch& s) {
    const bool fresh = fold.charges.front().variance.rows() > 0;
    const auto scale = static_cast<float>(f.region.spec.ir_drop.scale);
    const auto charge = s.charge.row(row);
    for (std::size_t c = 0; c < charge.size(); ++c) {
        const float a = s.load(row, c);
        const float share = a * ((0.05F * a - 0.2F) * a + 0.5F);
        const float rise = a * ((0.15F * a - 0.4F) * a + 0.5F);  // a times the derivative of share
        const float weighted = s.weighted(row, c);
        const float place = charge[c] > 0.0F ? weighted / charge[c] : 0.0F;
        const float slope =
            1.0F - scale * (fold.either_sign ? share * (2.0F / 3.0F) : place * (share + rise));
        charge[c] -= scale * share * weighted;
        if (fresh) s.variance(row, c) *= slope * slope;
    }
}

// Conversion of one charge; `number` counts the conversions of a product.
struct Conversion {
    std::size_t number;
    ops::Counter counter;
};

// Adds the counts of the chosen rows.
void convert(const FastRegion& f, const FastFold& fold, const Rows& rows, const Conversion& conversion,
             Scratch& s) {
    const auto& counter = conversion.counter;
    const bool fresh = fold.charges.front().variance.rows() > 0;
    const bool drops = fold.charges.front().weighted.rows() > 0;
    for (std::size_t i = 0; i < rows.chosen.size(); ++i) {
        const std::size_t r = rows.chosen[i];
        if (drops) lose_on_wire(f, fold, i, s);
        ops::ChargeRow in{.charge = s.charge.row(i), .offset = fold.offset};
        if (fresh) in.variance = s.variance.row(i);
        auto numbers = conversion_numbers(f, rows, r, conversion.number);
        if (fresh || counter.noise_variance > 0.0F) in.normals = draw_normals(numbers, s.normals);
        if (counter.polarity_error > 0.0F) {
            numbers.stream = Stream::chip_polarity_error;
            in.comparator = draw_normals(numbers, s.comparator);
        }
        s.saturated += fold.either_sign
                           ? ops::add_signed_counts(counter, in, fold.negative_gain, s.counts.row(r))
                           : ops::add_counts(counter, in, s.counts.row(r));
    }
}

// Processes one charge at a time, so that it is still in the cache when it is converted. `weight` and `bit`
// describe a slice of the inputs; conversions are numbered from `number`.
struct Slice {
    int bit;
    float weight;
    std::size_t number;
};

void run_slice(const FastRegion& f, const FastFold& fold, const Rows& rows, const Slice& slice, Scratch& s) {
    const std::size_t n = rows.chosen.size();
    for (std::size_t k = 0; k < fold.charges.size(); ++k) {
        const auto& charge = fold.charges[k];
        if (k == 0 || fold.charges[k - 1].panel != charge.panel) fill_panel(charge.panel, slice.bit, rows, s);
        multiply(s, n, s.panel, charge.counts, s.charge);
        multiply(s, n, s.squares, charge.variance, s.variance);
        multiply(s, n, s.panel, charge.weighted, s.weighted);
        multiply(s, n, s.panel, charge.load, s.load);
        Conversion conversion{slice.number + k, fold.counter};
        conversion.counter.weight = slice.weight * charge.sign;
        convert(f, fold, rows, conversion, s);
    }
}

// Counts of the chosen rows. Steps and counts are in the scratch.
void run_fold(const FastRegion& f, const FastFold& fold, const Rows& rows, Scratch& s) {
    if (!fold.bit_by_bit) return run_slice(f, fold, rows, {kNoBit, 1.0F, 0}, s);
    const auto levels = static_cast<float>(f.region.spec.dac.levels);
    const auto bits = static_cast<int>(input_slices(f.region.spec.dac));
    for (int bit = 0; bit < bits; ++bit) {
        const float weight = std::exp2(static_cast<float>(bit)) / levels;
        run_slice(f, fold, rows, {bit, weight, static_cast<std::size_t>(bit) * fold.charges.size()}, s);
    }
}

bool is_clear(const LinearMargin& margin, double sum, double squares) {
    const double root = std::sqrt(squares);
    return std::ranges::all_of(margin.columns, [&](const ColumnSpread& c) {
        return c.mean * sum - 4.0 * c.deviation * root >= margin.need;
    });
}

bool takes_linear(const FastRegion& f, const ops::StepSums& inputs) {
    if (f.linear.charges.empty()) return false;
    return f.margin.need == 0.0 || (is_clear(f.margin, inputs.positive, inputs.positive_squares) &&
                                    is_clear(f.margin, inputs.negative, inputs.negative_squares));
}

// max(0, g + sd N(0,1)) of every device, for one product.
void draw_devices(const DeviceIds& ids, std::uint64_t seed, std::uint64_t product,
                  const Matrix<float>& variance, Matrix<float>& g_us) {
    std::vector<float> z(whole_vectors(g_us.cols()));
    for (std::size_t r = 0; r < g_us.rows(); ++r) {
        ops::fill_normal(seed, Stream::chip_read_fresh, (product << 32U) | device_index(ids, r, 0), z);
        const auto g = g_us.row(r);
        const auto v = variance.row(r);
        for (std::size_t c = 0; c < g.size(); ++c) g[c] = std::max(0.0F, g[c] + std::sqrt(v[c]) * z[c]);
    }
}

void run_with_devices(const FastRegion& f, const Rows& rows, Scratch& s) {
    for (const std::size_t r : rows.chosen) {
        FastPlanes planes = f.devices;
        const std::uint64_t product = rows.first + r;
        draw_devices(f.region.plus.ids, rows.seed, product, planes.plus_variance, planes.plus_us);
        draw_devices(f.region.minus.ids, rows.seed, product, planes.minus_variance, planes.minus_us);
        planes.plus_variance = planes.minus_variance = {};
        Scratch one(f, 1);
        one.rows = 1;
        std::ranges::copy(s.steps.row(r), one.steps.row(0).begin());
        if (s.jitter.rows() > 0) std::ranges::copy(s.jitter.row(r), one.jitter.row(0).begin());
        run_fold(f, exact_fold(f.region, planes), {rows.seed, product, {0}}, one);
        std::ranges::copy(one.counts.row(0), s.counts.row(r).begin());
        s.saturated += one.saturated;
    }
}

ops::StepSums quantize(const FastRegion& f, std::span<const float> x, std::span<float> steps) {
    const auto sums = ops::quantize_row(step_scale(f), x, steps);
    if (!sums.finite) {
        const auto bad = std::ranges::find_if(x, [](float v) { return !std::isfinite(v); });
        fail(ErrorCode::bad_data, fmt::format("input {}: {} is not finite", bad - x.begin(), *bad));
    }
    return sums;
}

// Jitter is drawn once per product and is the same in all its conversions.
void draw_jitter(const FastRegion& f, const ProductIds& ids, std::size_t rows, Scratch& s) {
    const auto& dac = f.region.spec.dac;
    const bool bits = dac.encoding == InputEncoding::bit_serial;
    const auto per_normal = static_cast<float>(dac.jitter_steps / (bits ? dac.levels : 1.0));
    const std::uint64_t input = first_input(f.region.spec, f.region.ids);
    std::vector<float> memory(whole_vectors(s.jitter.cols() + 3));
    for (std::size_t r = 0; r < rows; ++r) {
        const auto z = draw_normals(
            {ids.seed, Stream::chip_input_jitter, ((ids.first + r) << 32U) | input, s.jitter.cols()}, memory);
        std::ranges::transform(z, s.jitter.row(r).begin(), [&](float v) { return per_normal * v; });
    }
}

// Counts of a tile of at most kTileRows rows, stored in the scratch.
void count_tile(const FastRegion& f, MatrixView<const float> x, const ProductIds& ids, Scratch& s) {
    s.rows = x.rows();
    std::ranges::fill(s.counts.values(), 0.0F);
    Rows linear{ids.seed, ids.first, {}};
    Rows exact{ids.seed, ids.first, {}};
    for (std::size_t r = 0; r < x.rows(); ++r) {
        const auto sums = quantize(f, x.row(r), s.steps.row(r));
        (takes_linear(f, sums) ? linear : exact).chosen.push_back(r);
    }
    if (s.jitter.rows() > 0) draw_jitter(f, ids, x.rows(), s);
    if (!linear.chosen.empty()) run_fold(f, f.linear, linear, s);
    if (!exact.chosen.empty())
        f.draws_devices ? run_with_devices(f, exact, s) : run_fold(f, f.exact, exact, s);
    if (f.region.spec.adc.output_floor)
        std::ranges::transform(s.counts.values(), s.counts.values().begin(),
                               [](float v) { return std::floor(v); });
}

// Calls finish(first row, scratch) for every tile; returns the number of saturated conversions.
std::uint64_t for_each_tile(const FastRegion& f, MatrixView<const float> x, const ProductIds& ids,
                            const Exec& exec,
                            const std::function<void(std::size_t, const Scratch&)>& finish) {
    check_products(f.region, x, ids);
    const std::size_t tiles = (x.rows() + kTileRows - 1) / kTileRows;
    const std::size_t most_rows = std::min(kTileRows, x.rows());
    std::vector<std::uint64_t> saturated(tiles, 0);
    parallel_for_workers(exec, tiles, [&] {
        return [&, s = Scratch(f, most_rows)](std::size_t t) mutable {
            const std::size_t first = t * kTileRows;
            s.saturated = 0;
            count_tile(f, x.slice_rows(first, std::min(kTileRows, x.rows() - first)),
                       {ids.seed, ids.first + first}, s);
            saturated[t] = s.saturated;
            finish(first, s);
        };
    });
    return std::accumulate(saturated.begin(), saturated.end(), std::uint64_t{0});
}

}  // namespace

ops::StepScale step_scale(const FastRegion& f) {
    const auto& dac = f.region.spec.dac;
    return {.range = f.region.input_range,
            .levels = dac.levels,
            .rounding = dac.rounding == InputRounding::nearest ? ops::StepRounding::nearest
                                                               : ops::StepRounding::truncate};
}

ops::AffineRow affine_row(const FastRegion& f) {
    const auto& config = f.region.spec.affine;
    const float most = config.output_bits == 0 ? std::numeric_limits<float>::infinity()
                                               : static_cast<float>((1 << (config.output_bits - 1)) - 1);
    return {.scale = f.scale,
            .offset = f.shift,
            .factor = f.factor,
            .limit = f.limit,
            .soft_limit = config.limit.shape == LimitShape::soft,
            .half = config.fp16,
            .most = most,
            .floor = config.rounding == OutputRounding::floor};
}

std::uint64_t input_slices(const DacConfig& dac) {
    if (dac.encoding == InputEncoding::pulse_width) return 1;
    return std::bit_width(static_cast<unsigned>(dac.levels));
}

std::uint64_t conversions_per_product(const FastRegion& f) {
    const std::uint64_t phases = f.region.spec.read_mode == ReadMode::four_phase ? 4 : 1;
    return f.region.cols() * phases * input_slices(f.region.spec.dac);
}

std::uint64_t first_normal(std::uint64_t product, std::uint64_t conversion, std::uint64_t column) {
    return (product << 32U) | ((conversion << kColumnBits) + column);
}

FastCounts fast_counts(const FastRegion& f, MatrixView<const float> x, const ProductIds& ids,
                       const Exec& exec) {
    FastCounts out{.counts = {x.rows(), f.region.cols()}};
    out.saturated = for_each_tile(f, x, ids, exec, [&](std::size_t first, const Scratch& s) {
        for (std::size_t r = 0; r < s.rows; ++r)
            std::ranges::copy(s.counts.row(r), out.counts.row(first + r).begin());
    });
    out.conversions = x.rows() * conversions_per_product(f);
    return out;
}

void add_fast_products(const WeightedRegion& part, MatrixView<const float> x, const ProductIds& ids,
                       const Exec& exec, MatrixView<float> y) {
    const auto& f = part.region;
    const auto affine = affine_row(f);
    Trace trace;
    trace.conversions = x.rows() * conversions_per_product(f);
    std::atomic<std::uint64_t> limited = 0;
    trace.saturated = for_each_tile(f, x, ids, exec, [&](std::size_t first, const Scratch& s) {
        std::vector<float> results(f.region.cols());
        for (std::size_t r = 0; r < s.rows; ++r) {
            limited += ops::affine_row(affine, s.counts.row(r), results);
            const auto out = y.row(first + r);
            for (std::size_t c = 0; c < out.size(); ++c) out[c] += part.factor * results[c];
        }
    });
    trace.limited = limited;
    record(exec, trace);
}

Matrix<float> fast_products(const FastRegion& f, MatrixView<const float> x, const ProductIds& ids,
                            const Exec& exec) {
    Matrix<float> y(x.rows(), f.region.cols());
    add_fast_products({f}, x, ids, exec, y.view());
    return y;
}

}  // namespace imka

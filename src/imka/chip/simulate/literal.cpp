#include "imka/chip/simulate/literal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

constexpr unsigned kComparatorColumnBits = 26;  // columns of all cores; check_numbers keeps them below 2^26
constexpr std::uint64_t kConversions = 64;      // numbers per column: at most 4 phases of 15 slices

// Devices of one polarity as read by one product.
struct Plane {
    Matrix<double> g_us;
    Matrix<double>
        backwards;  // factor of g_us when read with the opposite voltage; the same in every product
};

Plane make_plane(const CoreSpec& spec, const DeviceState& state) {
    Plane plane{{state.g_us.rows(), state.g_us.cols()}, {state.g_us.rows(), state.g_us.cols()}};
    for (std::size_t r = 0; r < state.g_us.rows(); ++r) {
        for (std::size_t c = 0; c < state.g_us.cols(); ++c) {
            const double z = normal(state.ids.seed, Stream::chip_polarity, device_index(state.ids, r, c));
            plane.backwards(r, c) = std::max(0.0, 1.0 + spec.polarity_asymmetry * z);
        }
    }
    return plane;
}

// Identifies one product and the noise that is new in it.
struct Product {
    std::uint64_t seed;
    std::uint64_t number;
};

void read_devices(const Conductances& now, const DeviceIds& ids, const Product& product, Plane& plane) {
    for (std::size_t r = 0; r < now.g_us.rows(); ++r) {
        for (std::size_t c = 0; c < now.g_us.cols(); ++c) {
            const std::uint64_t index = (product.number << 32U) | device_index(ids, r, c);
            const double z = normal(product.seed, Stream::chip_read_fresh, index);
            plane.g_us(r, c) = std::max(0.0, double{now.g_us(r, c)} + double{now.fresh_sd_us(r, c)} * z);
        }
    }
}

// One column during one product.
struct Column {
    const ProgrammedRegion& region;
    const Plane& plus;
    const Plane& minus;
    const std::vector<std::int32_t>& steps;
    const std::vector<double>& jitter;  // standard normal of each input
    Product product;
    std::size_t col;
    LiteralCounts& out;  // counts its conversions
};

double counted(const Column& k, double counts) {
    const int most = k.region.spec.adc.max_count;
    ++k.out.conversions;
    if (most > 0 && std::abs(counts) >= most) ++k.out.saturated;
    return counts;
}

double adc_noise(const Column& k, int conversion) {
    const std::uint64_t column = first_column(k.region.spec, k.region.ids) + k.col;
    const std::uint64_t index =
        (k.product.number << 32U) | (column * kConversions + static_cast<std::uint64_t>(conversion));
    return k.region.spec.adc.noise_counts * normal(k.product.seed, Stream::chip_adc_noise, index);
}

double comparator_noise(const Column& k, int conversion) {
    const std::uint64_t column = first_column(k.region.spec, k.region.ids) + k.col;
    const std::uint64_t index = (k.product.number << 32U) |
                                (static_cast<std::uint64_t>(conversion) << kComparatorColumnBits) | column;
    return k.region.spec.adc.polarity_error_counts *
           normal(k.product.seed, Stream::chip_polarity_error, index);
}

// Wire of a column during a read.
struct Wire {
    const Column& k;
    ColumnCurrent current;

    std::size_t rows() const { return static_cast<std::size_t>(k.region.spec.rows); }
    // Adds a device that is read for `duration` full pulses; negative if its current subtracts.
    void add(std::size_t row, double duration, double g_us) {
        current.sum += duration * g_us;
        current.absolute += std::abs(duration) * g_us;
        current.weighted +=
            duration * g_us * ir_drop_weight(k.region.ids.row + row, k.region.ids.col + k.col, rows());
    }
    double counts() const {
        return k.region.spec.adc.counts_per_us * with_ir_drop(k.region.spec.ir_drop, current, rows());
    }
};

// Counts of the inputs of one sign through devices of one polarity.
double phase_counts(const Column& k, int input_sign, const Matrix<double>& g_us, int phase) {
    const auto& spec = k.region.spec;
    const int slices = slice_count(spec.dac);
    double counts = 0.0;
    for (int slice = 0; slice < slices; ++slice) {
        Wire wire{k, {}};
        for (std::size_t r = 0; r < k.steps.size(); ++r) {
            if (k.steps[r] * input_sign <= 0) continue;
            const double duration = slice_duration(spec.dac, k.steps[r], slice);
            wire.add(r, jittered(spec.dac, duration, k.jitter[r]), g_us(r, k.col));
        }
        const double noise = adc_noise(k, phase * slices + slice);
        counts += slice_weight(spec.dac, slice) *
                  counted(k, convert(spec.adc, k.region.adc[k.col], wire.counts(), noise));
    }
    return counts;
}

double four_phase_counts(const Column& k) {
    return phase_counts(k, +1, k.plus.g_us, 0) + phase_counts(k, -1, k.minus.g_us, 1) -
           phase_counts(k, +1, k.minus.g_us, 2) - phase_counts(k, -1, k.plus.g_us, 3);
}

// A device is read backwards if its current subtracts.
double one_phase_counts(const Column& k) {
    const auto& spec = k.region.spec;
    double counts = 0.0;
    for (int slice = 0; slice < slice_count(spec.dac); ++slice) {
        Wire wire{k, {}};
        for (std::size_t r = 0; r < k.steps.size(); ++r) {
            const double duration =
                jittered(spec.dac, slice_duration(spec.dac, k.steps[r], slice), k.jitter[r]);
            const auto& added = k.steps[r] > 0 ? k.plus : k.minus;
            const auto& subtracted = k.steps[r] > 0 ? k.minus : k.plus;
            wire.add(r, duration, added.g_us(r, k.col));
            wire.add(r, -duration, subtracted.g_us(r, k.col) * subtracted.backwards(r, k.col));
        }
        const SignedNoise noise{.counts = adc_noise(k, slice), .comparator = comparator_noise(k, slice)};
        counts += slice_weight(spec.dac, slice) *
                  counted(k, convert_signed(spec.adc, k.region.adc[k.col], wire.counts(), noise));
    }
    return counts;
}

// Jitter is drawn once per product and is the same in all its phases, slices and columns.
void draw_jitter(const ProgrammedRegion& region, const Product& product, std::vector<double>& jitter) {
    const std::uint64_t first = first_input(region.spec, region.ids);
    for (std::size_t r = 0; r < jitter.size(); ++r)
        jitter[r] = normal(product.seed, Stream::chip_input_jitter, (product.number << 32U) | (first + r));
}

double column_counts(const Column& k) {
    const double counts =
        k.region.spec.read_mode == ReadMode::four_phase ? four_phase_counts(k) : one_phase_counts(k);
    return k.region.spec.adc.output_floor ? std::floor(counts) : counts;
}

}  // namespace

LiteralCounts literal_counts(const ProgrammedRegion& region, MatrixView<const float> x, const ReadTime& time,
                             const ProductIds& ids) {
    check_products(region, x, ids);
    const auto plus_now = conductances_at(region.device, region.plus, time);
    const auto minus_now = conductances_at(region.device, region.minus, time);
    auto plus = make_plane(region.spec, region.plus);
    auto minus = make_plane(region.spec, region.minus);
    std::vector<std::int32_t> steps(region.rows());
    std::vector<double> jitter(region.rows());
    LiteralCounts out{.counts = {x.rows(), region.cols()}};
    for (std::size_t v = 0; v < x.rows(); ++v) {
        const Product product{ids.seed, ids.first + v};
        quantize_inputs(region.spec.dac, x.row(v), region.input_range, steps);
        draw_jitter(region, product, jitter);
        read_devices(plus_now, region.plus.ids, product, plus);
        read_devices(minus_now, region.minus.ids, product, minus);
        for (std::size_t c = 0; c < region.cols(); ++c) {
            out.counts(v, c) = column_counts({region, plus, minus, steps, jitter, product, c, out});
        }
    }
    return out;
}

Matrix<float> literal_outputs(const ProgrammedRegion& region, const Matrix<double>& counts) {
    Matrix<float> y(counts.rows(), counts.cols());
    for (std::size_t v = 0; v < y.rows(); ++v) {
        for (std::size_t c = 0; c < y.cols(); ++c) {
            const double steps = apply_affine(region.spec.affine, region.affine.columns[c], counts(v, c));
            y(v, c) = static_cast<float>(region.compensation[c] * region.affine.output_step * steps);
        }
    }
    return y;
}

std::uint64_t literal_limited(const ProgrammedRegion& region, const Matrix<double>& counts) {
    std::uint64_t limited = 0;
    for (std::size_t v = 0; v < counts.rows(); ++v) {
        for (std::size_t c = 0; c < counts.cols(); ++c) {
            const auto& column = region.affine.columns[c];
            limited += std::abs(affine_value(region.spec.affine, column, counts(v, c))) >= column.limit;
        }
    }
    return limited;
}

Matrix<float> literal_products(const ProgrammedRegion& region, MatrixView<const float> x,
                               const ReadTime& time, const ProductIds& ids) {
    return literal_outputs(region, literal_counts(region, x, time, ids).counts);
}

}  // namespace imka

// Converters of a core: inputs to pulses, currents to counts, counts to outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"

namespace imka {

// Inputs of a crossbar: signed steps of a fixed range, applied as voltage pulses.
enum class InputEncoding {
    pulse_width,  // one pulse whose length is the magnitude
    bit_serial,   // one full-length pulse per bit of the magnitude; counts are weighted and added
};
template <>
struct EnumNames<InputEncoding> {
    static constexpr std::string_view what = "input encoding";
    static constexpr std::string_view values[] = {"pulse_width", "bit_serial"};
};

enum class InputRounding {
    nearest,   // ties to even
    truncate,  // towards 0
};
template <>
struct EnumNames<InputRounding> {
    static constexpr std::string_view what = "input rounding";
    static constexpr std::string_view values[] = {"nearest", "truncate"};
};

struct DacConfig {
    int levels = 127;  // steps on either side of 0; 1 to 32767
    InputEncoding encoding = InputEncoding::pulse_width;
    double step_seconds = 1e-9;  // pulse length of one step; a full pulse has `levels` steps; > 0
    InputRounding rounding = InputRounding::nearest;
    double jitter_steps = 0.0;  // standard deviation of an input's pulse length, new in every product; >= 0
};

// steps[i] = clip(x[i] / range, -1, 1) * levels, rounded as configured. range > 0. Error{bad_data} for a
// value that is not finite, naming the first.
void quantize_inputs(const DacConfig& config, std::span<const float> x, double range,
                     std::span<std::int32_t> steps);

// A magnitude is applied in slices, each followed by a conversion: the sum over slices of slice_weight *
// slice_duration is |steps| / levels. Durations are in full pulses.
int slice_count(const DacConfig& config);
double slice_duration(const DacConfig& config, std::int32_t steps, int slice);
double slice_weight(const DacConfig& config, int slice);

// A pulse lengthened by jitter_steps * z steps: max(0, duration + jitter_steps z / levels), in full
// pulses. A duration of 0 stays 0.
double jittered(const DacConfig& config, double duration, double z);

// Voltage lost along the wire of a column, as a correction of the column's charge (the polynomial of IBM
// aihwkit's tile model). a = n R sum_i g_i d_i with n rows, wire resistance R between two cells,
// conductance g and duration d in full pulses. The charge loses the share c = a (0.05 a² - 0.2 a + 0.5) of
// sum_i g_i d_i (1 - (1 - i/n)²), where i is the cell's distance from the converter.
struct IrDropConfig {
    double scale = 0.0;      // multiplies the loss; 0: none, 1: the formula; >= 0
    double wire_ohm = 0.35;  // R; >= 0
};

// 1 - (1 - i/n)² of a cell. Converters of even columns are before row 0, of odd columns after the last
// row.
double ir_drop_weight(std::size_t row, std::size_t col, std::size_t rows);

// Sums over the cells of a column that are read together, in uS.
struct ColumnCurrent {
    double sum = 0.0;       // of +-g d: the converted charge
    double absolute = 0.0;  // of g d
    double weighted = 0.0;  // of +-g d ir_drop_weight
};
// `sum` minus the loss.
double with_ir_drop(const IrDropConfig& config, const ColumnCurrent& current, std::size_t rows);

// Output converter of a column: a counter driven by the column's current.
enum class AdcRounding {
    none,   // fractional counts: no resolution limit
    round,  // to the nearest count
    floor,  // down to an integer
};
template <>
struct EnumNames<AdcRounding> {
    static constexpr std::string_view what = "rounding";
    static constexpr std::string_view values[] = {"none", "round", "floor"};
};

// Defaults: a perfect converter.
struct AdcConfig {
    double counts_per_us = 1.0 / 0.115;  // counts for 1 uS over a full pulse; > 0
    int max_count = 0;                   // a conversion saturates here; 0: never
    // Largest share of max_count reached by any phase of the calibration inputs. A share below 1 leaves room
    // for device and converter errors; above 1 phases saturate; > 0.
    double fill = 0.9;
    AdcRounding rounding = AdcRounding::none;
    double gain_sd = 0.0;  // spread of the columns' gains around 1; a gain is at least 0.01; >= 0
    // Spread of the gain for negative currents around the positive one; one-phase reads only; >= 0.
    double negative_gain_sd = 0.0;
    double offset_sd_counts = 0.0;    // spread of the columns' offsets, added to every conversion; >= 0
    double noise_counts = 0.0;        // standard deviation, new in every conversion; >= 0
    double offset_mean_counts = 0.0;  // mean of the columns' offsets
    // One-phase: standard deviation of the comparator that decides the sign; >= 0.
    double polarity_error_counts = 0.0;
    bool output_floor = false;  // round down the signed sum of all conversions
};

// Converter of one column.
struct AdcColumn {
    double gain = 1.0;
    double negative_gain = 1.0;
    double offset_counts = 0.0;
};
// The converters of columns first, first + 1, ...
std::vector<AdcColumn> draw_adc_columns(const AdcConfig& config, std::uint64_t seed, std::uint64_t first,
                                        std::size_t count);

// Counts of one phase, whose charge cannot be negative: clamp(R(gain * charge + offset + noise), 0,
// max_count) with rounding R. charge and noise in counts.
double convert(const AdcConfig& config, const AdcColumn& column, double charge, double noise);

// Noise of one conversion of a charge of either sign.
struct SignedNoise {
    double counts = 0.0;
    double comparator = 0.0;  // counts; affects only the choice of the counter
};
// Counts of a charge of either sign, for one-phase reads. With v = gain * charge + offset + noise, the
// sign of v + comparator noise chooses the counter: sign * min(R(|v|), max_count). The gain is
// negative_gain for charge < 0.
double convert_signed(const AdcConfig& config, const AdcColumn& column, double charge,
                      const SignedNoise& noise);

// Digital unit after the converters: scale and offset per column, optionally in half precision and rounded to
// a few bits.
enum class OutputRounding {
    nearest,  // ties to even
    floor,    // down: the fraction of a step is dropped
};
template <>
struct EnumNames<OutputRounding> {
    static constexpr std::string_view what = "output rounding";
    static constexpr std::string_view values[] = {"nearest", "floor"};
};

// Statistic of the products of the calibration inputs that sets the range of the results of a core.
enum class OutputRange {
    largest,  // the largest product of all columns
    mean,     // the largest product of each column, averaged over columns
};
template <>
struct EnumNames<OutputRange> {
    static constexpr std::string_view what = "output range";
    static constexpr std::string_view values[] = {"largest", "mean"};
};

// Products whose root mean square is the unit of the product limit.
enum class LimitUnit {
    core,    // all products of the core
    column,  // the products of the column itself
};
template <>
struct EnumNames<LimitUnit> {
    static constexpr std::string_view what = "unit of the product limit";
    static constexpr std::string_view values[] = {"core", "column"};
};

// Shape of the limit L.
enum class LimitShape {
    clip,  // min(|y|, L)
    soft,  // |y| / sqrt(1 + (y / L)²)
};
template <>
struct EnumNames<LimitShape> {
    static constexpr std::string_view what = "shape of the product limit";
    static constexpr std::string_view values[] = {"clip", "soft"};
};

// Saturation of a product before it is rounded to its few bits.
struct ProductLimit {
    double deviations = 0.0;  // limit, in root mean squares of products; 0: none; >= 0
    LimitUnit unit = LimitUnit::core;
    LimitShape shape = LimitShape::clip;
};

// Defaults: exact arithmetic.
struct AffineConfig {
    // Scale, offset, count and result in IEEE half precision; one rounding per multiply-add.
    bool fp16 = false;
    // Bits of the result, sign included: clip to ±(2^(bits-1) - 1) and round. 0: no rounding; else 2 to 16.
    int output_bits = 0;
    OutputRounding rounding = OutputRounding::nearest;
    OutputRange range = OutputRange::largest;
    // The largest output step stands for this multiple of the product that sets the range; > 0.
    double headroom = 1.0;
    ProductLimit limit;
};

// Results are in output steps: a suitable range for half precision and a few bits.
struct AffineColumn {
    double scale = 1.0;                                      // output steps per count
    double offset = 0.0;                                     // output steps
    double limit = std::numeric_limits<double>::infinity();  // output steps; > 0
};
struct AffineCorrection {
    double output_step = 1.0;  // value of one output step; > 0
    std::vector<AffineColumn> columns;
};

// scale * counts + offset in output steps, in half precision if configured.
double affine_value(const AffineConfig& config, const AffineColumn& column, double counts);

// The same, limited and rounded as configured. Multiply by output_step for the value.
double apply_affine(const AffineConfig& config, const AffineColumn& column, double counts);

// Nearest IEEE half-precision number to x (ties to even); infinite beyond 65520 as in IEEE 754.
double round_to_half(double x);

}  // namespace imka

// What is chosen from a sample of inputs before weights are programmed (input range, conductance of each
// column, output step), and after (the affine correction of each column).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/region.hpp"

namespace imka {

enum class InputRangeRule {
    max,        // the largest |x|: nothing is clipped
    quantile,   // a quantile of |x|
    deviation,  // a multiple of the root mean square of x
    search,     // the range with the smallest error of the products
    given,      // CalibrationConfig::range
};
template <>
struct EnumNames<InputRangeRule> {
    static constexpr std::string_view what = "input range rule";
    static constexpr std::string_view values[] = {"max", "quantile", "deviation", "search", "given"};
};

struct CalibrationConfig {
    std::size_t inputs = 2000;  // rows drawn from those offered; >= 1
    InputRangeRule input_range = InputRangeRule::max;
    double quantile = 0.99995;  // (0, 1]
    double deviations = 3.0;    // > 0
    double range = 0.0;         // for `given`; > 0
    bool columns = true;        // scale columns so that none saturates; false: all at g_max
    double margin = 0.9;  // share of max_count that the fullest phase may reach, the rest being room for
                          // errors of devices and converters; (0, 1]
};
void validate(const CalibrationConfig& config);

// The rows used: config.inputs of x drawn without repetition, all of x where it has no more.
Matrix<float> calibration_inputs(const CalibrationConfig& config, MatrixView<const float> x,
                                 std::uint64_t seed);

// For each column the largest conductance of its largest weight, at most g_max_us, at which no phase of these
// inputs exceeds margin * max_count:
//   G_j = min(g_max, margin max_count / (counts_per_us max S)), S the sum over the inputs of a phase and
//   slice of
// duration * |w_ij| / max_i |w_ij|; for one-phase reads the |sum| with signs.
std::vector<double> calibrate_columns(const CoreSpec& spec, double g_max_us, MatrixView<const float> weights,
                                      MatrixView<const float> x, double input_range, double margin);

// Range, columns and output step (the last step, 127 for 8 bits, is the largest product of the inputs as they
// are applied, times the headroom). Error{bad_data} when all inputs are 0. `search` tries max |x| and 0.95,
// 0.95², ... of it and takes the least sum of the squared errors of Q_r(x) w against x w and of the
// converter's noise and rounding, referred to the output.
RegionScale calibrate_scale(const ChipSpec& chip, MatrixView<const float> weights, MatrixView<const float> x,
                            const CalibrationConfig& config);

// Scale and offset of each column by least squares, so that affine(counts) is nearest to the exact products x
// w: scale = cov(y, c) / var(c), offset = mean(y) - scale mean(c), in output steps. A column whose counts do
// not vary gets scale 0 and the mean.
void fit_affine(MatrixView<const double> counts, MatrixView<const double> exact, ProgrammedRegion& region);

// What the input converters make of inputs, in the units of inputs.
Matrix<float> applied_inputs(const DacConfig& config, MatrixView<const float> x, double range);

// x w in double; x is n x inputs, w inputs x outputs.
Matrix<double> exact_products(MatrixView<const float> x, MatrixView<const float> weights);

// 10 log10(sum exact² / sum (y - exact)²), dB.
double signal_to_noise_db(MatrixView<const float> y, MatrixView<const double> exact);

}  // namespace imka

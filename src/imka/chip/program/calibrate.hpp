// Calibration from a sample of inputs. Before programming: input range, column conductances, output step.
// After programming: the affine correction of each column.
#pragma once

#include <cstdint>
#include <optional>
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
};
template <>
struct EnumNames<InputRangeRule> {
    static constexpr std::string_view what = "input range rule";
    static constexpr std::string_view values[] = {"max", "quantile", "deviation", "search"};
};

struct CalibrationConfig {
    std::size_t inputs = 2000;  // rows drawn from the given ones; >= 1
    InputRangeRule input_range = InputRangeRule::max;
    double quantile = 0.99995;    // (0, 1]
    double deviations = 3.0;      // > 0
    std::optional<double> range;  // used instead of a rule; > 0
    bool columns = true;          // scale columns so that none saturates; false: all at g_max
};
void validate(const CalibrationConfig& config);

// The rows used: config.inputs rows of x drawn without repetition, or all of x if it has no more.
Matrix<float> calibration_inputs(const CalibrationConfig& config, MatrixView<const float> x,
                                 std::uint64_t seed);

// For each column the largest conductance of its largest weight, at most g_max_us, at which no phase of these
// inputs exceeds fill * max_count:
//   G_j = min(g_max, fill max_count / (counts_per_us max S))
// S is the sum of duration * |w_ij| / max_i |w_ij| over the inputs of a phase and slice; for one-phase reads
// the absolute value of the signed sum.
std::vector<double> calibrate_columns(const CoreSpec& spec, double g_max_us, MatrixView<const float> weights,
                                      MatrixView<const float> x, double input_range);

// Chooses input range, column conductances and output step. The largest output step (127 for 8 bits) stands
// for the product of the applied inputs selected by core.output_range, times the headroom. Error{bad_data} if
// all inputs are 0. `search` tries max |x| times 1, 0.95, 0.95², ... and takes the range with the smallest
// sum of the squared error of Q_r(x) w against x w and the squared noise and rounding of the converter,
// referred to the output.
RegionScale calibrate_scale(const ChipSpec& chip, MatrixView<const float> weights, MatrixView<const float> x,
                            const CalibrationConfig& config);

// Mean of x xᵀ over all rows.
Matrix<double> second_moment(MatrixView<const float> x);

// Limit of the products of each column, from the second moment of the inputs; empty if the chip has none.
std::vector<double> product_limits(const ProductLimit& limit, MatrixView<const float> weights,
                                   MatrixView<const double> second_moment);

// Fits scale and offset of each column by least squares so that affine(counts) approximates the exact
// products x w: scale = cov(y, c) / var(c), offset = mean(y) - scale mean(c), in output steps. A column
// whose counts do not vary gets scale 0 and the mean.
void fit_affine(MatrixView<const double> counts, MatrixView<const double> exact, ProgrammedRegion& region);

// Inputs after rounding and clipping by the input converters, in the units of inputs.
Matrix<float> applied_inputs(const DacConfig& config, MatrixView<const float> x, double range);

// x w in double; x is n x inputs, w inputs x outputs.
Matrix<double> exact_products(MatrixView<const float> x, MatrixView<const float> weights);

// Largest |product| of each output.
std::vector<double> largest_products(const Matrix<double>& products);

// 10 log10(sum exact² / sum (y - exact)²), dB.
double signal_to_noise_db(MatrixView<const float> y, MatrixView<const double> exact);

}  // namespace imka

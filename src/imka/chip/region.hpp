// A region: the cells of one core that hold one tile of one matrix, and their programmed state.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/chip/device/device.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka {

// Weights as conductances: devices of positive polarity hold positive weights, the others negative ones;
// the opposite polarity gets the target 0. Rows of weights are inputs and columns are outputs, as in a
// crossbar.
struct MappedWeights {
    Matrix<float> plus_us;  // targets
    Matrix<float> minus_us;
    std::vector<double> weight_per_us;  // per column; 0 if all its weights are 0
};

// Error{bad_data} for weights that are not finite, naming the first; Error{bad_config} for conductances
// that are not > 0.
MappedWeights map_weights(MatrixView<const float> weights, std::span<const double> column_us);

// Drift compensation: scales outputs to undo the loss of the array since a reference read.
enum class DriftCompensation {
    none,
    global,  // one factor per array
    column,  // one factor per output
};

// Factor of each column: mean |reference| / mean |now|, over the array or the column. Both arguments are
// outputs of the array for one input at a time, that is, differences of the two polarities' conductances.
// Factors are at most 1e4; a column that was 0 at the reference gets the factor 1.
std::vector<double> drift_compensation(DriftCompensation kind, MatrixView<const float> reference,
                                       MatrixView<const float> now);

// A rectangle of a matrix (inputs x outputs).
struct Tile {
    std::size_t first_row = 0;
    std::size_t rows = 0;
    std::size_t first_col = 0;
    std::size_t cols = 0;
    auto operator<=>(const Tile&) const = default;
};

// Position of one tile: cells row to row + tile.rows, col to col + tile.cols of a core. A core may hold
// several regions that do not overlap.
struct Region {
    std::uint32_t matrix = 0;
    std::uint32_t replica = 0;  // copy of the matrix
    std::uint32_t core = 0;
    std::uint32_t row = 0;
    std::uint32_t col = 0;
    Tile tile;
    bool operator==(const Region&) const = default;
};

// Conductances and ranges of a region, chosen by calibration.
struct RegionScale {
    std::vector<double> column_us;           // conductance of the largest weight of each column, uS
    double input_range = 1.0;                // inputs beyond are clipped; > 0
    double output_step = 1.0;                // value of one output step; > 0
    std::vector<double> output_limits = {};  // per column, in output steps; empty: none
    bool operator==(const RegionScale&) const = default;
};

// Seed of a chip and a position on it: together they identify every device and converter of a region.
struct RegionIds {
    std::uint64_t seed = 0;
    std::uint32_t core = 0;
    std::uint32_t row = 0;
    std::uint32_t col = 0;
};

// Numbers of a region's devices of one polarity (0: positive, 1: negative). Error{bad_config} for a core
// whose devices or conversions would have numbers of 2^32 or more.
DeviceIds device_ids(const CoreSpec& spec, const RegionIds& ids, std::uint64_t polarity);
// Numbers of the first input and of the first output converter of a region, over all cores of a chip.
std::uint64_t first_input(const CoreSpec& spec, const RegionIds& ids);
std::uint64_t first_column(const CoreSpec& spec, const RegionIds& ids);

// Identifies products, and so determines the noise that is new in each. Product v of a batch has the number
// first + v, below 2^32. Regions of one core share its converters: products of two matrices with the same
// numbers need different seeds, otherwise both get the same noise.
struct ProductIds {
    std::uint64_t seed = 0;
    std::uint64_t first = 0;
};

struct ProgrammedRegion {
    RegionIds ids;
    CoreSpec spec;
    DeviceModel device;
    double input_range = 1.0;
    DeviceState plus;  // inputs x outputs of the tile
    DeviceState minus;
    std::vector<AdcColumn> adc;
    AffineCorrection affine;
    std::vector<double> compensation;  // factor per output

    std::size_t rows() const { return plus.g_us.rows(); }
    std::size_t cols() const { return plus.g_us.cols(); }
};

// Maps the weights (inputs x outputs), programs both polarities and sets the affine correction to its
// nominal values: offset 0 and the scale of a chip without errors. Error{bad_config} if the weights do
// not fit the core at this origin.
ProgrammedRegion program_region(const ChipSpec& chip, MatrixView<const float> weights,
                                const RegionScale& scale, const RegionIds& ids);

// Error{bad_data} for inputs of the wrong length, Error{bad_usage} for product numbers of 2^32 or more.
void check_products(const ProgrammedRegion& region, MatrixView<const float> x, const ProductIds& ids);

// Sets the factors that restore outputs at `time` to their level right after programming.
void compensate_drift(DriftCompensation kind, const ReadTime& time, ProgrammedRegion& region);

}  // namespace imka

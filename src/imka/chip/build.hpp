// Builds a chip from weights, calibration inputs and settings: place, calibrate, program, calibrate
// outputs, age, compensate.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/chip/programmed_chip.hpp"

namespace imka {

// Source of the scale and offset of the columns.
enum class OutputCalibration {
    least_squares,  // fitted to the calibration inputs after programming
    nominal,        // scales of a chip without errors
    centred,        // fitted, and corrected for truncated inputs and results rounded down
};
template <>
struct EnumNames<OutputCalibration> {
    static constexpr std::string_view what = "output calibration";
    static constexpr std::string_view values[] = {"least_squares", "nominal", "centred"};
};

// Compensation for ageing since programming.
enum class AgeCompensation {
    none,
    global,   // one factor per core
    column,   // one factor per column
    outputs,  // refits scale and offset of the columns
};
template <>
struct EnumNames<AgeCompensation> {
    static constexpr std::string_view what = "compensation";
    static constexpr std::string_view values[] = {"none", "global", "column", "outputs"};
};

// Corrects the outputs at the chip's current time. `fit` applies to AgeCompensation::outputs.
ProgrammedChip compensated(ProgrammedChip chip, AgeCompensation kind, OutputFit fit, const Exec& exec);

// The steps of a build, each with its own settings.
struct BuildSteps {
    PlacementConfig placement;
    CalibrationConfig calibration;
    ProgrammingConfig programming;
    std::optional<OutputFit> output_fit = OutputFit::applied;  // none: nominal scales
    ReadTime time;  // outputs are calibrated at 0 s with this spacing
    AgeCompensation compensation = AgeCompensation::none;
};

// Weights (inputs x outputs) and the inputs from which calibration draws its rows.
struct BuildJob {
    const ChipSpec& chip;
    Matrix<float> weights;
    MatrixView<const float> sample;
    BuildSteps steps;
    std::uint64_t seed = 0;             // of the chip
    Matrix<double> second_moment = {};  // of all inputs, as in Calibration
};
ProgrammedChip build_chip(BuildJob job, const Exec& exec);
// The steps after calibration of the plan: program, calibrate outputs, age, compensate.
ProgrammedChip build_chip(Plan plan, const BuildSteps& steps, std::uint64_t seed, const Exec& exec);

// How a matrix is put on a chip and when it is read.
struct BuildConfig {
    std::optional<InputRangeRule> input_range;  // auto: max, or deviation if input_alpha is set
    std::optional<double> input_alpha;  // clip inputs at this many standard deviations; -1: no clipping
    std::int64_t calibration_inputs = 2000;
    ProgrammingMethod programming = ProgrammingMethod::statistical;
    OutputCalibration output_calibration = OutputCalibration::least_squares;
    double read_seconds = 0.0;   // since programming; >= 0
    double read_spacing = 1e-3;  // seconds between two products; >= 0
    AgeCompensation compensation = AgeCompensation::none;
    // Scales rows of Ω so that the largest product of every output fills the output range; outputs are
    // scaled back after the chip.
    bool range_scaling = false;
    // Returns 0 for every n-th product, as seems to have happened in some measured runs; 0: off.
    std::int64_t lost_rows = 0;
    PlacementConfig placement;  // copies of the matrix
};
Fields fields(BuildConfig& config);
// Error{bad_config}, also for settings that exclude each other.
void validate(const BuildConfig& config);

// Settings of the build steps. Standard deviations are computed from all rows of `inputs`.
CalibrationConfig calibration_of(const BuildConfig& config, MatrixView<const float> inputs,
                                 double input_scale = 1.0);
BuildSteps steps_of(const BuildConfig& config, const CalibrationConfig& calibration);

// Returns a seed that is unique for (seed, purpose).
std::uint64_t derived_seed(std::uint64_t seed, std::uint32_t purpose);

// A matrix of a projection, and the chip to put it on.
struct ProjectionJob {
    const ChipSpec& chip;
    const Matrix<float>& omega;      // m x d
    MatrixView<const float> inputs;  // calibration inputs are drawn from these rows
    const BuildConfig& config;
    std::uint64_t seed = 0;    // of the chip
    double input_scale = 1.0;  // inputs are multiplied by this before the chip
};
// A chip, and the corrections still to be applied to its outputs.
struct BuiltChip {
    ProgrammedChip chip;
    std::vector<float> factors;   // one per output; empty: all 1
    std::uint64_t lost_rows = 0;  // as in BuildConfig
};
BuiltChip build_chip(const ProjectionJob& job, const Exec& exec);

}  // namespace imka

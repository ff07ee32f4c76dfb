// Builds a chip from weights, calibration inputs and settings: placed, calibrated, programmed, outputs
// calibrated, aged, compensated.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/chip/programmed_chip.hpp"

namespace imka {

// Where scale and offset of the columns come from.
enum class OutputCalibration {
    least_squares,  // fitted to the calibration inputs after programming
    nominal,        // those of a chip without errors
    centred,        // fitted, and made up for what inputs lose by truncation and results by rounding down
};
template <>
struct EnumNames<OutputCalibration> {
    static constexpr std::string_view what = "output calibration";
    static constexpr std::string_view values[] = {"least_squares", "nominal", "centred"};
};

// What is done about the time since programming.
enum class AgeCompensation {
    none,
    global,   // one factor for each core
    column,   // one for each column
    outputs,  // scale and offset of the columns are fitted again
};
template <>
struct EnumNames<AgeCompensation> {
    static constexpr std::string_view what = "compensation";
    static constexpr std::string_view values[] = {"none", "global", "column", "outputs"};
};

// Corrects outputs at the chip's time. `outputs` fits them to `fit`.
ProgrammedChip compensated(ProgrammedChip chip, AgeCompensation kind, OutputFit fit, const Exec& exec);

// The steps of a build, each with its own settings.
struct BuildSteps {
    PlacementConfig placement;
    CalibrationConfig calibration;
    ProgrammingConfig programming;
    std::optional<OutputFit> output_fit = OutputFit::applied;  // none: outputs keep their nominal scales
    ReadTime time;  // outputs are calibrated at 0 s with this spacing
    AgeCompensation compensation = AgeCompensation::none;
};

// Weights (inputs x outputs) and the sample of inputs that calibration draws its rows from.
struct BuildJob {
    const ChipSpec& chip;
    Matrix<float> weights;
    MatrixView<const float> sample;
    BuildSteps steps;
    std::uint64_t seed = 0;  // of the chip
};
ProgrammedChip build_chip(BuildJob job, const Exec& exec);

// How a matrix gets onto a chip and when it is read.
struct BuildConfig {
    std::optional<InputRangeRule> input_range;  // auto: max, or deviation where input_alpha is given
    std::optional<double> input_alpha;  // standard deviations at which inputs are clipped; -1: none are
    std::int64_t calibration_inputs = 2000;
    ProgrammingMethod programming = ProgrammingMethod::statistical;
    OutputCalibration output_calibration = OutputCalibration::least_squares;
    double read_seconds = 0.0;   // since programming; >= 0
    double read_spacing = 1e-3;  // seconds between two products; >= 0
    AgeCompensation compensation = AgeCompensation::none;
    // Rows of Ω are scaled so that the largest product of every output fills the range of results, and
    // outputs are scaled back behind the chip.
    bool range_scaling = false;
    std::int64_t lost_rows =
        0;             // every n-th product comes back as 0, as some measured runs seem to have had; 0: none
    int replicas = 1;  // copies of the matrix; 0: as many as fit
    Replication replication = Replication::throughput;
};
Fields fields(BuildConfig& config);
// Error{bad_config}, also for settings that exclude each other.
void validate(const BuildConfig& config);

// A seed that no other (seed, purpose) has.
std::uint64_t derived_seed(std::uint64_t seed, std::uint32_t purpose);

// A matrix as a projection has it, and the chip that is to hold it.
struct ProjectionJob {
    const ChipSpec& chip;
    const Matrix<float>& omega;      // m x d
    MatrixView<const float> inputs;  // rows from which the calibration inputs are drawn
    const BuildConfig& config;
    std::uint64_t seed = 0;    // of the chip
    double input_scale = 1.0;  // inputs are multiplied by this before they reach the chip
};
// A chip, and what its outputs still need.
struct BuiltChip {
    ProgrammedChip chip;
    std::vector<float> factors;   // of each output; empty: all 1
    std::uint64_t lost_rows = 0;  // as in BuildConfig
};
BuiltChip build_chip(const ProjectionJob& job, const Exec& exec);

}  // namespace imka

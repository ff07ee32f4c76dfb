// A matrix on the cores of a chip, and how it gets there: mapped, calibrated, programmed, aged, compensated.
// Each step takes what the one before left; out of order is an error.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/program/calibrate.hpp"
#include "imka/chip/program/compensation.hpp"
#include "imka/chip/program/programming_core.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/chip/tiling.hpp"

namespace imka {

enum class ChipState {
    ideal,        // a matrix and a chip: nothing is placed
    mapped,       // cut into tiles, each on a core; every column at g_max, inputs of range 1
    calibrated,   // ranges and column conductances chosen from a sample of inputs
    programmed,   // devices written; the clock is at 0 s
    aged,         // time has passed since
    compensated,  // and its effect on outputs was corrected
};
template <>
struct EnumNames<ChipState> {
    static constexpr std::string_view what = "chip state";
    static constexpr std::string_view values[] = {"ideal",      "mapped", "calibrated",
                                                  "programmed", "aged",   "compensated"};
};

// What several copies of a matrix are for.
enum class Replication {
    throughput,  // each takes every n-th input
    average,     // each takes every input; outputs are averaged
};
template <>
struct EnumNames<Replication> {
    static constexpr std::string_view what = "replication";
    static constexpr std::string_view values[] = {"throughput", "average"};
};

struct PlacementConfig {
    int replicas = 1;  // copies of the matrix; 0: as many as fit
    Replication replication = Replication::throughput;
};

struct ChipMatrix {
    ChipSpec spec;
    std::uint64_t seed = 0;  // names every device and converter of the chip
    ChipState state = ChipState::ideal;
    Matrix<float> weights;  // inputs x outputs
    // From mapped on. Core t of replica r has the number r * tiles + t.
    Tiling tiling;
    std::size_t replicas = 1;
    Replication replication = Replication::throughput;
    std::vector<CoreMapping> mappings;  // of each tile
    // From calibrated on.
    Matrix<float> inputs;  // the sample, used again when outputs are calibrated
    // From programmed on.
    std::vector<ProgrammedCore> cores;
    ReadTime time;

    std::size_t core_count() const { return tiling.tiles.size() * replicas; }
};

// Error{bad_data} for weights that are not finite, naming the first.
ChipMatrix ideal_matrix(const ChipSpec& spec, Matrix<float> weights, std::uint64_t seed);

// Error{bad_config} where the matrix needs more cores than there are: says how many are missing.
void place(ChipMatrix& chip, const PlacementConfig& config = {});

// Chooses ranges and conductances of every tile from config.inputs rows of x, drawn by the chip's seed.
void calibrate(ChipMatrix& chip, MatrixView<const float> x, const CalibrationConfig& config,
               const Exec& exec);

// What programming took, summed over cores, and what it achieved, averaged over them.
struct ProgrammingSummary {
    ProgrammingCost cost;
    ProgrammingErrors before;
    ProgrammingErrors after;
    std::uint64_t polarities = 0;
    std::uint64_t unreached = 0;
    std::vector<std::vector<GradientStep>> steps;  // of each core, for gradient descent
};
// Writes the devices of every core; outputs keep their nominal scales (gradient descent: those it fitted).
// A mapped matrix may be programmed without calibration. Programming again starts from new devices with the
// same numbers: the same result.
ProgrammingSummary program(ChipMatrix& chip, const ProgrammingConfig& config, const Exec& exec);

// What scale and offset of a column are fitted to.
enum class OutputFit {
    applied,  // products of the inputs as they are applied
    // Products of the inputs as they are given, only clipped, where inputs are truncated: the scale makes up
    // for what truncation takes on average. Where results are rounded down, half a step is added to the
    // offset: they are then rounded to the nearest step.
    centred,
};

// Scale and offset of every column by least squares on the calibration sample, as the chip is now; a drift
// compensation made before is included and its factors return to 1. An aged chip is compensated by it.
void calibrate_outputs(ChipMatrix& chip, const Exec& exec, OutputFit fit = OutputFit::applied);

// Lets the clock run to `time.seconds` after programming. It only goes forward.
void age(ChipMatrix& chip, const ReadTime& time);

// Multiplies outputs by what was lost since programming. `none` takes a compensation back.
void compensate(ChipMatrix& chip, DriftCompensation kind);

// Error{bad_usage} that names the state unless it is one of [first, last].
void require_state(const ChipMatrix& chip, ChipState first, ChipState last, std::string_view action);

}  // namespace imka

// A programmed chip: a plan whose devices have been written. Ageing and compensation give new values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/plan.hpp"
#include "imka/chip/program/programming_core.hpp"

namespace imka {

struct ProgrammedChip {
    Plan plan;
    std::uint64_t seed = 0;                   // names every device and converter of the chip
    std::vector<ProgrammedRegion> regions;    // in the order of plan.regions
    ReadTime time;                            // when the chip is read
    std::optional<double> corrected_seconds;  // time since programming of the last correction of outputs
};

// How far a matrix is on its way onto a chip: a word for people.
enum class ChipState {
    ideal,        // digital products, no chip
    mapped,       // placed; every column at g_max, inputs of range 1
    calibrated,   // ranges and column conductances chosen from a sample of inputs
    programmed,   // devices written, read at 0 s
    aged,         // read later
    compensated,  // and outputs were corrected at the time of the read
};
template <>
struct EnumNames<ChipState> {
    static constexpr std::string_view what = "chip state";
    static constexpr std::string_view values[] = {"ideal",      "mapped", "calibrated",
                                                  "programmed", "aged",   "compensated"};
};
ChipState state_of(const Plan& plan);
ChipState state_of(const ProgrammedChip& chip);

// What programming took, summed over regions, and what it achieved, averaged over them.
struct ProgrammingSummary {
    ProgrammingCost cost;
    ProgrammingErrors before;
    ProgrammingErrors after;
    std::uint64_t polarities = 0;
    std::uint64_t unreached = 0;
    std::vector<std::vector<GradientStep>> steps;  // of each region, for gradient descent
};

// Writes the devices of every region; outputs keep their nominal scales (gradient descent: those it fitted).
// The same plan, seed and config give the same chip. A plan may be programmed without calibration. The
// summary stays empty for statistical programming, which draws the outcome.
ProgrammedChip program(Plan plan, std::uint64_t seed, const ProgrammingConfig& config, const Exec& exec,
                       ProgrammingSummary* summary = nullptr);

// What scale and offset of a column are fitted to.
enum class OutputFit {
    applied,  // products of the inputs as they are applied
    // Products of the inputs as they are given, only clipped, where inputs are truncated: the scale makes up
    // for what truncation takes on average. Where results are rounded down, half a step is added to the
    // offset: they are then rounded to the nearest step.
    centred,
};

// Scale and offset of every column by least squares on the calibration samples, as the chip is now; drift
// compensation is included and its factors return to 1. Error{bad_usage} where a matrix has no sample.
ProgrammedChip with_calibrated_outputs(ProgrammedChip chip, OutputFit fit, const Exec& exec);

// Read at another time, `time.seconds` after programming. Time only goes forward: Error{bad_usage}.
ProgrammedChip aged(ProgrammedChip chip, const ReadTime& time);

// Multiplies outputs by what was lost since programming. `none` takes a compensation back.
ProgrammedChip compensated(ProgrammedChip chip, DriftCompensation kind);

}  // namespace imka

// A programmed chip: a plan and its programmed devices. Ageing and compensation return a new chip.
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
    std::uint64_t seed = 0;                   // identifies every device and converter of the chip
    std::vector<ProgrammedRegion> regions;    // in the order of plan.regions
    ReadTime time;                            // time of the reads
    std::optional<double> corrected_seconds;  // time since programming of the last output correction
};

// Progress of a matrix on its way onto a chip, for display.
enum class ChipState {
    ideal,        // digital products, no chip
    mapped,       // placed; every column at g_max, inputs of range 1
    calibrated,   // ranges and column conductances chosen from a sample of inputs
    programmed,   // devices written, read at 0 s
    aged,         // read later
    compensated,  // outputs corrected at the time of the read
};
template <>
struct EnumNames<ChipState> {
    static constexpr std::string_view what = "chip state";
    static constexpr std::string_view values[] = {"ideal",      "mapped", "calibrated",
                                                  "programmed", "aged",   "compensated"};
};
ChipState state_of(const Plan& plan);
ChipState state_of(const ProgrammedChip& chip);

// Cost of programming, summed over regions, and errors, averaged over regions.
struct ProgrammingSummary {
    ProgrammingCost cost;
    ProgrammingErrors before;
    ProgrammingErrors after;
    std::uint64_t polarities = 0;
    std::uint64_t unreached = 0;
    std::vector<std::vector<GradientStep>> steps;  // per region, for gradient descent
};

// Programs the devices of every region; outputs keep their nominal scales (gradient descent: its fitted
// ones). The same plan, seed and config give the same chip. The plan need not be calibrated. The summary
// stays empty for statistical programming, which draws the outcome.
ProgrammedChip program(Plan plan, std::uint64_t seed, const ProgrammingConfig& config, const Exec& exec,
                       ProgrammingSummary* summary = nullptr);

// Target products for the fit of scale and offset of a column.
enum class OutputFit {
    applied,  // products of the applied inputs
    // If inputs are truncated: products of the given inputs, only clipped, so that the scale corrects the
    // mean loss by truncation. If results are rounded down: adds half a step to the offset, so that they
    // are rounded to nearest.
    centred,
};

// Fits scale and offset of every column by least squares on the calibration samples, at the chip's current
// time. Also compensates drift: compensation factors return to 1. Error{bad_usage} if a matrix has no sample.
ProgrammedChip with_calibrated_outputs(ProgrammedChip chip, OutputFit fit, const Exec& exec);

// Moves the chip to `time.seconds` after programming. Error{bad_usage} if that is before its current time.
ProgrammedChip aged(ProgrammedChip chip, const ReadTime& time);

// Scales outputs to undo the loss since programming. `none` removes a compensation.
ProgrammedChip compensated(ProgrammedChip chip, DriftCompensation kind);

}  // namespace imka

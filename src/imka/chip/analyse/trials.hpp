// Chips to analyse, one per seed, and the errors of their products.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/error_parts.hpp"
#include "imka/chip/analyse/nonideality.hpp"
#include "imka/chip/analyse/problem.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/simulate/emulator.hpp"

namespace imka {

struct ChipBuild {
    ChipSettings settings;
    PlacementConfig placement;
    ProgrammingConfig programming;
    bool output_calibration = true;  // fit scale and offset of every output after programming
};
// Placed, calibrated, programmed, outputs calibrated.
ProgrammedChip build_chip(const ChipBuild& build, const Problem& problem, const Exec& exec);

struct ChipTrials {
    ProblemSource source;
    ChipBuild build;
    std::vector<std::uint64_t> seeds;          // one chip and one problem per seed
    std::optional<ProgrammedChip> programmed;  // read for every seed instead of building chips
};
// Error{bad_config} if the matrix does not fit the chip.
void validate(const ChipTrials& trials);
// The chip of a problem right after programming, or the given one.
ProgrammedChip trial_chip(const ChipTrials& trials, const Problem& problem, const Exec& exec);

// When products are read, and how drift is compensated.
struct AgedRead {
    ReadTime time;
    AgeCompensation compensation = AgeCompensation::none;
};
// The chip at that time; no compensation at 0 s.
ProgrammedChip aged_and_compensated(ProgrammedChip chip, const AgedRead& read, const Exec& exec);

// Seed of the noise that is new in every product; differs from the seed of the chip.
std::uint64_t product_seed(std::uint64_t chip_seed);

struct Measurement {
    ErrorParts parts;
    double saturated = 0.0;  // share of conversions
    double clipped = 0.0;    // share of inputs
};

// Measures the products of the test inputs. The problem must have its exact products.
Measurement measure(const ProgrammedChip& chip, const Problem& problem, Simulator simulator,
                    const Exec& exec);
// The same without a chip: float32 products.
Measurement measure_digital(const Problem& problem, const Exec& exec);

// Only the relative error.
double measure_error(const ProgrammedChip& chip, const Problem& problem, const Exec& exec);

}  // namespace imka

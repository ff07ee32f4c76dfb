// Chips to analyse, one for each seed, and the errors of their products.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/analyse/error_parts.hpp"
#include "imka/chip/analyse/nonideality.hpp"
#include "imka/chip/analyse/problem.hpp"
#include "imka/chip/chip_matrix.hpp"

namespace imka {

struct ChipBuild {
    ChipSettings settings;
    PlacementConfig placement;
    ProgrammingConfig programming;
    bool output_calibration = true;  // fit scale and offset of every output after programming
};
// Placed, calibrated, programmed, outputs calibrated.
ChipMatrix build_chip(const ChipBuild& build, const Problem& problem, const Exec& exec);

struct ChipTrials {
    ProblemSource source;
    ChipBuild build;
    std::vector<std::uint64_t> seeds;      // one chip and one problem each
    std::optional<ChipMatrix> programmed;  // read for every seed, instead of building chips
};
// Error{bad_config} where the matrix does not fit the chip.
void validate(const ChipTrials& trials);
// The chip of a problem, fresh from programming, or the one that is given.
ChipMatrix trial_chip(const ChipTrials& trials, const Problem& problem, const Exec& exec);

// When products are read, and what is done about the time since programming.
struct AgedRead {
    ReadTime time;
    AgeCompensation compensation = AgeCompensation::none;
};
// Ages a chip and compensates it; at 0 s nothing is compensated.
void age_and_compensate(ChipMatrix& chip, const AgedRead& read, const Exec& exec);
void compensate_by(ChipMatrix& chip, AgeCompensation kind, const Exec& exec);

// Seed of the noise that is new in every product, apart from that of the chip.
std::uint64_t product_seed(std::uint64_t chip_seed);

enum class Simulator { fast, literal };
template <>
struct EnumNames<Simulator> {
    static constexpr std::string_view what = "simulator";
    static constexpr std::string_view values[] = {"fast", "literal"};
};

struct Measurement {
    ErrorParts parts;
    double saturated = 0.0;  // share of conversions
    double clipped = 0.0;    // share of inputs
};

// Products of the test inputs of a problem that has its exact products.
Measurement measure(const ChipMatrix& chip, const Problem& problem, Simulator simulator, const Exec& exec);

// The relative error alone.
double measure_error(const ChipMatrix& chip, const Problem& problem, const Exec& exec);

}  // namespace imka

// Error of products in every state of a chip, and as a function of the time since programming.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/trials.hpp"

namespace imka {

struct StatesConfig {
    Simulator simulator = Simulator::fast;
    AgedRead read;  // 0 s: the chip does not age
};

// Names as in ChipState. "mapped" and "calibrated" have devices without error, so only mapping and
// converters contribute. "programmed+" is programmed with calibrated outputs.
struct MeasuredState {
    std::string name;
    std::vector<Measurement> values;  // one per seed
};
// In the order in which a chip passes through them; a programmed chip starts at its current state.
std::vector<MeasuredState> measure_states(const ChipTrials& trials, const StatesConfig& config,
                                          const Exec& exec);

inline constexpr std::array kAgeCompensations = {AgeCompensation::none, AgeCompensation::global,
                                                 AgeCompensation::column, AgeCompensation::outputs};
// Relative errors at one time: one list for each of kAgeCompensations, with one value per seed.
using AgedErrors = std::array<std::vector<double>, kAgeCompensations.size()>;

struct AgeingConfig {
    std::vector<double> seconds;  // since programming, increasing
    double spacing_seconds = 1e-3;
};
// One per time.
std::vector<AgedErrors> measure_ageing(const ChipTrials& trials, const AgeingConfig& config,
                                       const Exec& exec);

}  // namespace imka

// The error of products in every state of a chip, and against the time since programming.
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

// A state's name is that of ChipState. "mapped" and "calibrated" have devices without error: what is left is
// mapping and converters. "programmed+" is programmed with its outputs calibrated.
struct MeasuredState {
    std::string name;
    std::vector<Measurement> values;  // one per seed
};
// In the order in which a chip passes them; a programmed chip begins with the state that it is in.
std::vector<MeasuredState> measure_states(const ChipTrials& trials, const StatesConfig& config,
                                          const Exec& exec);

inline constexpr std::array kAgeCompensations = {AgeCompensation::none, AgeCompensation::global,
                                                 AgeCompensation::column, AgeCompensation::outputs};
// The relative errors at one time: a list for each of kAgeCompensations, with a value per seed.
using AgedErrors = std::array<std::vector<double>, kAgeCompensations.size()>;

struct AgeingConfig {
    std::vector<double> seconds;  // since programming, rising
    double spacing_seconds = 1e-3;
};
// One per time.
std::vector<AgedErrors> measure_ageing(const ChipTrials& trials, const AgeingConfig& config,
                                       const Exec& exec);

}  // namespace imka

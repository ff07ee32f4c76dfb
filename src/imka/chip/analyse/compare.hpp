// Compares the states, ages and programming methods of chips by the errors of their products.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/trials.hpp"

namespace imka {

// Error of products in every state of a chip, and as a function of the time since programming.

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

// Compares programming methods on the same chips and weights.

// All methods that the chip supports.
std::vector<ProgrammingMethod> programming_methods(const ChipSpec& spec);

struct MethodResult {
    ProgrammingMethod method = ProgrammingMethod::statistical;
    std::vector<ProgrammingSummary> draws;  // one per seed
};
struct ProgrammingComparison {
    std::vector<MethodResult> methods;
    ProgrammedChip first;  // the chip of the first seed, programmed by the last method
};
// Chips as in trials.build, except for the method. Expects at least one method.
ProgrammingComparison compare_programming(const ChipTrials& trials,
                                          const std::vector<ProgrammingMethod>& methods, const Exec& exec);

// Share of max-SET-fill's product error that gradient descent removes, one per draw; empty unless both
// methods were compared.
std::optional<std::vector<double>> gradient_gains(const std::vector<MethodResult>& results);

const MethodResult* find_method(const std::vector<MethodResult>& results, ProgrammingMethod method);

}  // namespace imka

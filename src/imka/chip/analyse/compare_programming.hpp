// Compares programming methods on the same chips and weights.
#pragma once

#include <optional>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/trials.hpp"

namespace imka {

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

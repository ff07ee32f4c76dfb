// What each way to program a chip achieves, on the same chips and weights.
#pragma once

#include <optional>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/trials.hpp"

namespace imka {

// All methods that the chip has a model for.
std::vector<ProgrammingMethod> programming_methods(const ChipSpec& spec);

struct MethodResult {
    ProgrammingMethod method = ProgrammingMethod::statistical;
    std::vector<ProgrammingSummary> draws;  // one per seed
};
struct ProgrammingComparison {
    std::vector<MethodResult> methods;
    ProgrammedChip first;  // the chip of the first seed, programmed by the last method
};
// Chips are those of trials.build, but for the method. At least one method.
ProgrammingComparison compare_programming(const ChipTrials& trials,
                                          const std::vector<ProgrammingMethod>& methods, const Exec& exec);

// Share of max-SET-fill's error of products that gradient descent removes, one per draw; none unless both
// methods were compared.
std::optional<std::vector<double>> gradient_gains(const std::vector<MethodResult>& results);

const MethodResult* find_method(const std::vector<MethodResult>& results, ProgrammingMethod method);

}  // namespace imka

// Switches the ops between the instruction sets that this machine supports and the library was compiled for.
#pragma once

#include "imka/ops/vector_targets.hpp"

#include <hwy/targets.h>

#include <cstdint>

// Restores the best set at the end of the scope.
struct RestoreInstructionSet {
    std::int64_t all;
    ~RestoreInstructionSet() {
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(all);
    }
};

// Calls body(name) once per set and returns the number of sets. Restores the best set afterwards, also if the
// body throws.
template <class Body>
int on_each_instruction_set(const Body& body) {
    // Cached: the query takes longer than a short op.
    static const std::int64_t all = hwy::SupportedTargets();
    const RestoreInstructionSet restore{all};
    int count = 0;
    for (std::int64_t rest = all & HWY_TARGETS; rest != 0; rest &= rest - 1) {
        const std::int64_t target = rest & -rest;
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(target);
        body(hwy::TargetName(target));
        ++count;
    }
    return count;
}

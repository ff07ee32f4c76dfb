// Switches the ops between the instruction sets that this machine has and the library was compiled for.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

// Calls body(name) once for each set and gives their number; afterwards the best set is chosen again, also
// when the body throws.
template <class Body>
int on_each_instruction_set(const Body& body) {
    // Asked once: the answer takes longer than a short op, and inside the loop it would be the chosen set.
    static const std::int64_t all = hwy::SupportedTargets();
    const auto choose = [](std::int64_t targets) {
        hwy::SetSupportedTargetsForTest(targets == all ? 0 : targets);
        hwy::GetChosenTarget().Update(targets);
    };
    struct Restore {
        decltype(choose)& choose;
        ~Restore() { choose(all); }
    } const restore{choose};
    int count = 0;
    for (std::int64_t rest = all & HWY_TARGETS; rest != 0; rest &= rest - 1) {
        const std::int64_t target = rest & -rest;
        choose(target);
        body(hwy::TargetName(target));
        ++count;
    }
    return count;
}

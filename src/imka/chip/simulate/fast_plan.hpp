// Inside the fast simulator: the plan that converts every charge alone.
#pragma once

#include "imka/chip/simulate/fast.hpp"

namespace imka {

FastPlan exact_plan(const ProgrammedCore& core, const FastPlanes& planes);

}  // namespace imka

// Calibration of several matrices of a plan at once.
#pragma once

#include <span>

#include "imka/base/exec.hpp"
#include "imka/chip/plan.hpp"

namespace imka {

// Same as calibrated() for each matrix in turn, but with all tiles in parallel.
Plan calibrated(Plan plan, std::span<const Calibration> calibrations, const Exec& exec);

}  // namespace imka

// Calibration of several matrices of a plan at once.
#pragma once

#include <span>

#include "imka/base/exec.hpp"
#include "imka/chip/plan.hpp"

namespace imka {

// As calibrated() for one matrix after another, with all tiles in parallel.
Plan calibrated(Plan plan, std::span<const Calibration> calibrations, const Exec& exec);

}  // namespace imka

// Which non-idealities of a chip cause the Gram error of a run.
#pragma once

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/attribution.hpp"
#include "imka/data/dataset.hpp"
#include "imka/experiment/run.hpp"

namespace imka {

// The chip settings of a run, in which non-idealities can be switched off.
ChipSettings chip_settings(const RunConfig& config);

// Uses the seeds of the run. The backend must be a chip. With nothing switched off, the errors equal those of
// the run.
ErrorAttribution attribute_gram_error(const RunConfig& config, const Dataset& data, const Exec& exec);

}  // namespace imka

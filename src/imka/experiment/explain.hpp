// Which non-idealities of a chip cause the Gram error of a run.
#pragma once

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/attribution.hpp"
#include "imka/data/dataset.hpp"
#include "imka/experiment/run.hpp"

namespace imka {

// The chip of a run, as its switches see it.
ChipSettings chip_settings(const RunConfig& config);

// Over the seeds of the run, whose backend is a chip. With nothing switched off, errors are those of the run.
ErrorAttribution attribute_gram_error(const RunConfig& config, const Dataset& data, const Exec& exec);

}  // namespace imka

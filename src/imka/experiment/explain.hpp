// Which non-idealities of a chip cause the Gram error of a run.
#pragma once

#include <cstddef>

#include "imka/base/exec.hpp"
#include "imka/chip/analyse/attribution.hpp"
#include "imka/data/dataset.hpp"
#include "imka/experiment/run.hpp"

namespace imka {

struct GramAttribution {
    ChipBuild build;
    AgedRead read;
    std::size_t calibration_count = 2000;  // training rows
};
// Over the seeds of the run.
ErrorAttribution attribute_gram_error(const RunConfig& config, const Dataset& data,
                                      const GramAttribution& options, const Exec& exec);

}  // namespace imka

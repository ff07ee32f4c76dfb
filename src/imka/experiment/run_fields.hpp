// Settings of the runs: one list for each family of kinds (experiment/kinds.hpp), and one for their chip.
#pragma once

#include "imka/experiment/run.hpp"

namespace imka {

Fields dataset_fields(RunConfig& config);
Fields dataset_chip_fields(RunConfig& config);
Fields attention_fields(RunConfig& config);
Fields attention_chip_fields(RunConfig& config);
Fields performer_fields(RunConfig& config);
// Includes the name of the chip (backend): the mode decides whether a run uses it.
Fields performer_chip_fields(RunConfig& config);

}  // namespace imka

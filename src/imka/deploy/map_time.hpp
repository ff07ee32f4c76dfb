// The mapper for least time.
#pragma once

#include "imka/deploy/map.hpp"
#include "imka/deploy/pipeline.hpp"

namespace imka {

// Puts matrices on different cores if they would run at the same time when none ever waits. Then adds copies
// of the matrix with the most products per copy, as long as there are free cores. Tiles on one core are
// stacked by rows. Called by map_matrices, which checks the arguments.
MapResult map_for_time(const MatrixList& list, const CoreGrid& grid, const MapOptions& options,
                       const Pipeline& pipeline);

}  // namespace imka

// The mapper for least time.
#pragma once

#include "imka/deploy/map.hpp"
#include "imka/deploy/pipeline.hpp"

namespace imka {

// Matrices that would work at the same time if none ever waited are on different cores. Then the matrix with
// the most products per copy gets further copies, as long as there are cores. Tiles on one core are stacked
// by rows. For map_matrices, which checks the arguments.
MapResult map_for_time(const MatrixList& list, const CoreGrid& grid, const MapOptions& options,
                       const Pipeline& pipeline);

}  // namespace imka

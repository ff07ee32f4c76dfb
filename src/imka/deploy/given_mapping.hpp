// Places the matrices of a model with a mapping from a file instead of the mapper.
#pragma once

#include "imka/deploy/map.hpp"

namespace imka {

// Returns the mapping, verified and in the order of the list. Matrices are matched by name, or by the name of
// their weights; calls and vectors come from the list, copies from the mapping. The lower bound is the area
// of all copies. Error{bad_data} if the mapping is illegal, or its cores or matrices differ from those of the
// grid and the list.
MapResult given_mapping(const Mapping& mapping, const MatrixList& list, const CoreGrid& grid);

}  // namespace imka

// A mapping from a file instead of the mapper, for the matrices of a model.
#pragma once

#include "imka/deploy/map.hpp"

namespace imka {

// The mapping in the order of the list, verified. Its matrices are found by name, or by the name of their
// weights; calls and vectors are those of the list, copies those of the mapping. The lower bound is the area
// of all copies. Error{bad_data} if the mapping is illegal, has cores of another size, or has other matrices
// than the list.
MapResult given_mapping(const Mapping& mapping, const MatrixList& list, const CoreGrid& grid);

}  // namespace imka

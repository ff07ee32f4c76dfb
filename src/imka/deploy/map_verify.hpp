// Independent check of a mapping: legality, and that products through it equal products of the matrices.
// Shares no code with the mapper.
#pragma once

#include "imka/deploy/mapping.hpp"

namespace imka {

// Error{bad_data} that names the first problem unless every region is inside its core and its matrix, no two
// regions of a core overlap, and every weight of every replica has exactly one cell.
void verify_legal(const Mapping& mapping);

// Fills crossbars with whole numbers, multiplies through the regions and adds partial sums; Error{bad_data}
// if an output of a replica differs from the product of the matrix. Calls verify_legal first.
// Error{bad_config} for cores of more than 2^26 cells.
void verify_products(const Mapping& mapping);

}  // namespace imka
